// The system's view of CPUs: lists of them, those this process may use, their cores, a container's limits, and the
// ranks that a launcher started on this box. Read from /proc, /sys and the environment.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/threads/thread_plan.h"

namespace moka {

// The CPUs that thread `pid` (0: the calling one) may run on.
std::vector<int> AffinityOf(int pid);

// The facts of a process that may run on `allowed`. `root` is "/" but in tests; `variable` gives an environment
// variable or null. Never fails: what cannot be read limits nothing, and a CPU without topology is a core of its own.
CpuFacts ReadCpuFacts(const std::vector<int>& allowed, const std::filesystem::path& root,
                      const std::function<const char*(const char*)>& variable);

// The NUMA node that has all of `cpus`; none if they are of several, or if the system does not say.
std::optional<int> NumaNodeOf(const std::vector<int>& cpus, const std::filesystem::path& root);

}  // namespace moka
