// Reads /proc/meminfo and the limits of each control group that this process is in (versions 1 and 2). Page cache
// counts as free, as the kernel drops it before it kills.
#include "core/device/memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "core/text.h"
#include "core/threads/control_group.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The number behind `key` in lines "key number ..."; with an empty key the number that the file begins with.
std::optional<int64_t> NumberIn(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::string_view rest = Trim(line);
    if (!rest.starts_with(key)) continue;
    rest = Trim(rest.substr(key.size()));
    int64_t value = 0;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    // Version 1 may say more than fits where there is no limit.
    if (code == std::errc::result_out_of_range) return std::numeric_limits<int64_t>::max();
    if (code == std::errc() && value >= 0) return value;
    if (key.empty()) break;
  }
  return std::nullopt;
}

std::optional<int64_t> MeminfoBytes(const fs::path& root, std::string_view key) {
  const auto kib = NumberIn(root / "proc/meminfo", key);
  if (!kib || *kib > std::numeric_limits<int64_t>::max() / 1024) return std::nullopt;
  return *kib * 1024;
}

// One group's limit and what is used of it, page cache that can be dropped left out.
void Narrow(const fs::path& folder, MemoryFacts& facts) {
  std::error_code ignored;
  const bool is_second = fs::exists(folder / "memory.max", ignored);
  const auto limit = NumberIn(folder / (is_second ? "memory.max" : "memory.limit_in_bytes"), "");  // "max" is none
  if (!limit) return;
  if (*limit < facts.total_bytes) {
    facts.total_bytes = *limit;
    facts.is_limited = true;
  }
  const int64_t used = NumberIn(folder / (is_second ? "memory.current" : "memory.usage_in_bytes"), "").value_or(0);
  int64_t cached = 0;
  for (const std::string part : {"inactive_file ", "active_file "}) {
    cached += std::min(used, NumberIn(folder / "memory.stat", is_second ? part : "total_" + part).value_or(0));
  }
  const int64_t held = std::max<int64_t>(used - cached, 0);
  facts.available_bytes = std::min(facts.available_bytes, std::max<int64_t>(*limit - held, 0));
}

}  // namespace

MemoryFacts ReadMemoryFacts(const fs::path& root) {
  MemoryFacts facts;
  const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  facts.total_bytes = MeminfoBytes(root, "MemTotal:").value_or(physical);
  // Half of it where the system does not say.
  facts.available_bytes = MeminfoBytes(root, "MemAvailable:").value_or(facts.total_bytes / 2);
  for (const fs::path& folder : ControlGroupFolders(root, "memory")) Narrow(folder, facts);
  return facts;
}

}  // namespace moka
