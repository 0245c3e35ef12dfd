// The work of a model since it was loaded, counted for statistics and metrics.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

namespace moka {

struct DurationCount {
  int64_t count = 0;
  int64_t ns = 0;
  void Add(int64_t duration_ns) {
    ++count;
    ns += duration_ns;
  }
};

// Runs of so many rows.
struct BatchCount {
  int64_t runs = 0;
  int64_t input_ns = 0;
  int64_t infer_ns = 0;
  int64_t output_ns = 0;
};

// The parts of a request's time, as Triton calls them.
struct CountedModel {
  int64_t memory_bytes = 0;  // of its weights and programs
  int64_t rows = 0;
  int64_t runs = 0;
  int64_t last_ms = 0;  // since 1970
  DurationCount success;
  DurationCount fail;
  DurationCount queue;
  DurationCount input;
  DurationCount infer;
  DurationCount output;
  int64_t rejected = 0;                            // before they waited
  int64_t cancelled = 0;                           // by their clients
  int64_t late = 0;                                // beyond their time-out
  int64_t alone = 0;                               // runs of one request because no other waited
  std::map<int64_t, BatchCount> batches = {};      // by rows
  static constexpr int kBuckets = 17;              // of 0.5 ms times powers of two, to 32 s
  std::array<int64_t, kBuckets + 1> seconds = {};  // requests; the last is of longer ones
};

class ModelCounts {
 public:
  // Changes what is counted.
  template <class Change>
  void Update(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(counted_);
  }
  CountedModel Now() const {
    const std::lock_guard lock(mutex_);
    return counted_;
  }

 private:
  mutable std::mutex mutex_;
  CountedModel counted_;
};

}  // namespace moka
