// The energy that the processor's packages and their memory have taken, as Linux counts it for RAPL (powercap): one
// counter a zone in microjoules, which begins again at zero beyond max_energy_range_uj.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace moka {

// Sums the counters of the zones "package-N" and "dram" below a folder. The others overlap with those: "core" and
// "uncore" are parts of a package, and "psys" holds the packages. One thread.
class EnergyMeter {
 public:
  explicit EnergyMeter(const std::filesystem::path& folder = "/sys/class/powercap");

  // Reads the counters. One that is below its last value has begun again once since then, so this must be called at
  // least once in the time that a counter takes for its range: minutes at full load.
  void Sample();
  // Joules since the meter was made; none where the machine tells none, or only to root.
  std::optional<double> joules() const;

 private:
  struct Zone {
    std::filesystem::path counter;
    int64_t range_uj = 0;
    int64_t last_uj = 0;
  };
  void Add(const std::filesystem::path& zone);

  std::vector<Zone> zones_;
  int64_t sum_uj_ = 0;
  bool is_whole_ = true;  // every counter could be read every time
};

}  // namespace moka
