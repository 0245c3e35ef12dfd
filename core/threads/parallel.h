// The one door to threads inside kernels: a static split of a range over the OpenMP team that oneDNN also uses.
#pragma once

#include <cstdint>
#include <type_traits>

namespace moka {

// Threads the team has (OMP_NUM_THREADS or --threads; otherwise the cores this process may use).
int ThreadCount();
// Sets the team's size for all later work. Requires: threads >= 1.
void SetThreadCount(int threads);

namespace internal {
using RangeBody = void (*)(void* context, int64_t begin, int64_t end, int thread);
void ParallelRange(int64_t count, int64_t grain, RangeBody body, void* context);
}  // namespace internal

// Calls body(begin, end, thread) over disjoint, contiguous parts of [0, count), one a thread, of at least `grain`
// items; the split depends on count, grain and ThreadCount() only, so results do not depend on timing. The body must
// not throw.
template <class Body>
void ParallelFor(int64_t count, int64_t grain, Body&& body) {
  using Function = std::remove_reference_t<Body>;
  internal::ParallelRange(
      count, grain,
      [](void* context, int64_t begin, int64_t end, int thread) {
        (*static_cast<Function*>(context))(begin, end, thread);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace moka
