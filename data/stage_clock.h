// Where workers' time goes, cheaply: all of a worker's time is counted, but what it is spent on is looked at for one
// sample of each part only, and the sums of those are taken for the rest.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace moka {

// The stages in which one sample is made.
enum class Stage : uint8_t {
  kRead,       // bytes from a file or a mapped database
  kDecode,     // to pixels
  kTransform,  // to the floats of a batch
};
inline constexpr size_t kStages = 3;

// A counter that one thread adds to and others read.
class Tally {
 public:
  void Add(int64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

inline int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One worker's, since the pipeline was opened; on a line of the cache of its own.
struct alignas(64) WorkerTallies {
  std::array<Tally, kStages> seen_nanos;  // stages of the samples that were looked at
  Tally make_nanos;                       // of all samples
  Tally idle_nanos;                       // all batches were full
  Tally samples;
  Tally cached;  // pictures taken from the cache
};

// Makers tell it which stage begins.
class StageClock {
 public:
  // Looks at the next sample, which begins with reading.
  void Start() {
    is_on_ = true;
    stage_ = Stage::kRead;
    since_ = NowNanos();
  }
  void Enter(Stage stage) {
    if (!is_on_) return;
    const int64_t now = NowNanos();
    nanos_[static_cast<size_t>(stage_)] += now - since_;
    since_ = now;
    stage_ = stage;
  }
  // Adds what was seen and looks away.
  void Stop(WorkerTallies& tallies) {
    Enter(stage_);
    is_on_ = false;
    for (size_t i = 0; i < kStages; ++i) {
      tallies.seen_nanos[i].Add(nanos_[i]);
      nanos_[i] = 0;
    }
  }

 private:
  bool is_on_ = false;
  Stage stage_ = Stage::kRead;
  int64_t since_ = 0;
  std::array<int64_t, kStages> nanos_{};
};

}  // namespace moka
