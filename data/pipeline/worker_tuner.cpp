// Counts over stretches of batches: one worker more while the consumer waits, one fewer after several full stretches,
// with patience that grows when taking away was wrong.
#include "data/pipeline/worker_tuner.h"

#include <algorithm>

namespace moka {
namespace {

constexpr int64_t kStretchBatches = 8;
constexpr int64_t kStretchMicros = 50'000;  // shorter ones say more of the system's scheduler than of the workers
constexpr int64_t kNoticed = 50;            // a wait of more than 1/50 of the time
constexpr int64_t kMostPatience = 1024;

}  // namespace

bool WorkerTuner::Observe(int64_t wait_micros, int64_t total_micros, bool all_full) {
  if (!is_tuned_) return false;
  ++batches_;
  wait_micros_ += wait_micros;
  total_micros_ += total_micros;
  all_full_ = all_full_ && all_full;
  if (batches_ < kStretchBatches || total_micros_ < kStretchMicros) return false;
  const bool has_changed = Judge();
  batches_ = wait_micros_ = total_micros_ = 0;
  all_full_ = true;
  return has_changed;
}

bool WorkerTuner::Judge() {
  if (since_less_ >= 0) ++since_less_;
  full_ = all_full_ ? full_ + 1 : 0;
  if (wait_micros_ * kNoticed > total_micros_) {
    if (threads_ == most_) return false;
    if (since_less_ >= 0 && since_less_ <= patience_) patience_ = std::min(2 * patience_, kMostPatience);
    since_less_ = -1;
    ++threads_;
    return true;
  }
  if (full_ < patience_ || threads_ == 1) return false;
  full_ = since_less_ = 0;
  --threads_;
  return true;
}

}  // namespace moka
