// How long threads have wanted to run and stood in the run queue instead, as the kernel counts it
// (/proc/.../schedstat), and how long CPUs had nothing to do: what tells a busy machine. Nothing where the kernel keeps
// no such count.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace moka {

// Nanoseconds of the calling thread since it was made. Allocates nothing.
std::optional<int64_t> ThreadQueuedNs();
// Nanoseconds of all threads that this process has now.
std::optional<int64_t> ProcessQueuedNs();
// Seconds that the CPUs together were idle since the system started, in steps of a hundredth.
std::optional<double> IdleSeconds(const std::vector<int>& cpus);

}  // namespace moka
