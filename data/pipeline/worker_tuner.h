// How many workers take part in filling batches: more while the consumer waits, fewer while all batches stay full. It
// judges by stretches of batches; a step back that made the consumer wait again is tried ever more rarely.
#pragma once

#include <cstdint>

namespace moka {

class WorkerTuner {
 public:
  // A number that stays, or one of 1..most that starts at half of it.
  static WorkerTuner Fixed(int64_t threads) { return {threads, threads, false}; }
  static WorkerTuner UpTo(int64_t most) { return {(most + 1) / 2, most, most > 1}; }

  int64_t threads() const { return threads_; }
  int64_t most() const { return most_; }
  bool is_tuned() const { return is_tuned_; }

  // A batch was handed over: how long the consumer waited for it, how long since the one before, and whether all other
  // batches were full then. Returns whether threads() has changed.
  bool Observe(int64_t wait_micros, int64_t total_micros, bool all_full);

 private:
  WorkerTuner(int64_t threads, int64_t most, bool is_tuned) : threads_(threads), most_(most), is_tuned_(is_tuned) {}
  bool Judge();

  int64_t threads_;
  int64_t most_;
  bool is_tuned_;
  // This stretch.
  int64_t batches_ = 0;
  int64_t wait_micros_ = 0;
  int64_t total_micros_ = 0;
  bool all_full_ = true;
  // Counters of stretches.
  int64_t full_ = 0;      // in a row
  int64_t patience_ = 4;  // how many full ones make it take a worker away
  int64_t since_less_ = -1;
};

}  // namespace moka
