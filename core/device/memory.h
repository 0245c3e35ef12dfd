// How much memory this process may use: the machine's, or less where a control group (a container, a batch job) sets a
// limit. What is planned beyond that limit ends in the kernel's killing.
#pragma once

#include <cstdint>
#include <filesystem>

namespace moka {

struct MemoryFacts {
  int64_t total_bytes = 0;      // the machine's, or the least limit of the groups above this process
  int64_t available_bytes = 0;  // what can still be had of it without swapping, the page cache included
  bool is_limited = false;      // whether a group's limit is below what the machine has
};

// `root` is "/" but in tests. Never fails: what cannot be read limits nothing.
MemoryFacts ReadMemoryFacts(const std::filesystem::path& root);

}  // namespace moka
