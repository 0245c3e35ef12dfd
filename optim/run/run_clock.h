// MLPerf's clock of a run: it starts when training data is first touched, and tests and checkpoints are inside. Reading
// solver and nets, the search for kernels and compiling come before it (init_s). A resumed run goes on from what its
// checkpoint had, so that the time in which nothing ran is not counted.
#pragma once

#include <chrono>
#include <optional>

namespace moka {

// One thread.
class RunClock {
 public:
  using Clock = std::chrono::steady_clock;

  // The start-up has begun at that moment.
  explicit RunClock(Clock::time_point begun = Clock::now()) : begun_(begun) {}

  // Data may be touched from now on; sessions before have run `before_s`.
  void Start(double before_s);
  bool has_started() const { return started_.has_value(); }
  // Seconds since data was first touched; 0 before Start.
  double run_s() const;
  // Seconds of the start-up, up to now before Start.
  double init_s() const;

 private:
  Clock::time_point begun_;
  std::optional<Clock::time_point> started_;
  double before_s_ = 0;
};

// Rounded to milliseconds, as files have it.
double ToMillis(double seconds);

}  // namespace moka
