#include "core/parallel.h"

#include <omp.h>

#include <algorithm>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);  // NOLINT: the sanitizer's own names
extern "C" void __tsan_release(void* address);  // NOLINT
#endif

namespace moka {

int ThreadCount() { return omp_get_max_threads(); }
void SetThreadCount(int threads) { omp_set_num_threads(std::max(1, threads)); }

namespace internal {
namespace {

// libgomp's barriers are invisible to the thread sanitizer; these two calls say what they guarantee: work before the
// region is seen inside it, and work inside it is seen after it.
void Publish([[maybe_unused]] void* token) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(token);
#endif
}
void Observe([[maybe_unused]] void* token) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(token);
#endif
}

// One team's work, passed by pointer. The stack of the caller holds it until the region ends.
struct Region {
  int64_t count;
  int64_t threads;
  RangeBody body;
  void* context;
  char entered;
  char left;
};

void RunPart(Region& region, int64_t thread) {
  const int64_t begin = region.count * thread / region.threads;
  const int64_t end = region.count * (thread + 1) / region.threads;
  if (begin < end) region.body(region.context, begin, end, static_cast<int>(thread));
}

}  // namespace

void ParallelRange(int64_t count, int64_t grain, RangeBody body, void* context) {
  if (count <= 0) return;
  const int64_t useful = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  const int64_t threads = omp_in_parallel() != 0 ? 1 : std::min<int64_t>(ThreadCount(), useful);
  Region region{count, threads, body, context, 0, 0};
  if (threads == 1) {
    RunPart(region, 0);
    return;
  }
  Publish(&region.entered);
  Region* const shared = &region;
#pragma omp parallel num_threads(static_cast <int>(threads)) default(none) firstprivate(shared)
  {
    Observe(&shared->entered);
    RunPart(*shared, omp_get_thread_num());
    Publish(&shared->left);
  }
  Observe(&region.left);
}

}  // namespace internal
}  // namespace moka
