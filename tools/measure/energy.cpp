// Zones are the folders "intel-rapl:N" and their parts "intel-rapl:N:M", for AMD's processors too. The same packages
// are also there as "intel-rapl-mmio:N", which is left out.
#include "tools/measure/energy.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kZone = "intel-rapl:";
constexpr double kMicro = 1e-6;

// The number that a file of sysfs holds; none where it is not there or not for this user.
std::optional<int64_t> NumberIn(const fs::path& file) {
  std::ifstream stream(file);
  int64_t number = 0;
  if (!(stream >> number) || number < 0) return std::nullopt;
  return number;
}

std::string NameOfZone(const fs::path& zone) {
  std::ifstream stream(zone / "name");
  std::string name;
  std::getline(stream, name);
  return name;
}

}  // namespace

EnergyMeter::EnergyMeter(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> zones;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().filename().string().starts_with(kZone)) zones.push_back(entry.path());
  }
  std::ranges::sort(zones);
  for (const fs::path& zone : zones) Add(zone);
}

void EnergyMeter::Add(const fs::path& zone) {
  const std::string name = NameOfZone(zone);
  if (!name.starts_with("package") && name != "dram") return;
  const std::optional<int64_t> range = NumberIn(zone / "max_energy_range_uj");
  const std::optional<int64_t> now = NumberIn(zone / "energy_uj");
  is_whole_ = is_whole_ && range && now;
  if (range && now) zones_.push_back({.counter = zone / "energy_uj", .range_uj = *range, .last_uj = *now});
}

void EnergyMeter::Sample() {
  for (Zone& zone : zones_) {
    const std::optional<int64_t> now = NumberIn(zone.counter);
    is_whole_ = is_whole_ && now;
    if (!now) continue;
    const int64_t since = *now - zone.last_uj;
    sum_uj_ += since >= 0 ? since : since + zone.range_uj;
    zone.last_uj = *now;
  }
}

std::optional<double> EnergyMeter::joules() const {
  if (zones_.empty() || !is_whole_) return std::nullopt;
  return static_cast<double>(sum_uj_) * kMicro;
}

}  // namespace moka
