// Calls libgomp's entry point directly: one region, split into equal ranges. A nested call runs in the calling thread,
// so that a kernel may be called inside a part.
#include "core/threads/parallel.h"

#include <omp.h>

#include <algorithm>

// "#pragma omp parallel" calls this function in libgomp, and in libomp for its sake. We call it directly because the
// pragma would put the region's address on the caller's stack, where the thread sanitizer sees it read before Observe()
// can speak.
extern "C" void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned flags);  // NOLINT: its name

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

void RunOwnPart(void* data) {
  Region& region = *static_cast<Region*>(data);
  Observe(&region.entered);
  // A team may be smaller than it was asked to be.
  for (int64_t part = omp_get_thread_num(); part < region.threads; part += omp_get_num_threads()) RunPart(region, part);
  Publish(&region.left);
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
  GOMP_parallel(&RunOwnPart, &region, static_cast<unsigned>(threads), 0);
  Observe(&region.left);
}

}  // namespace internal
}  // namespace moka
