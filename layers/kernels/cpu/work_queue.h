// Shares of a loop's work that threads take as they come free: where each item's result is its own, a thread that the
// system held up then keeps nobody waiting, and no bit depends on who did what.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace moka {

// Work handed out in order, less at a time towards the end, so that nobody waits long for the last.
class WorkQueue {
 public:
  WorkQueue(int64_t count, int64_t most, int workers) : count_(count), most_(most), workers_(workers) {}

  // False: nothing is left.
  // Half of an even share of what is left, one item at least and `most` at most. The order of memory is relaxed: the
  // counter alone is shared, and what items write is published by the end of ParallelFor.
  bool Take(int64_t& begin, int64_t& end) {
    int64_t at = next_.load(std::memory_order_relaxed);
    do {
      begin = at;
      end = at + std::clamp<int64_t>((count_ - at) / (2 * workers_), 1, most_);
      if (begin >= count_) return false;
    } while (!next_.compare_exchange_weak(at, end, std::memory_order_relaxed));
    return true;
  }

 private:
  const int64_t count_;
  const int64_t most_;
  const int workers_;
  std::atomic<int64_t> next_ = 0;
};

}  // namespace moka
