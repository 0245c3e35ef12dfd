// Differences of the steady clock, which no change of the machine's time moves.
#include "optim/run/run_clock.h"

#include <cmath>

namespace moka {
namespace {

double SecondsBetween(RunClock::Clock::time_point from, RunClock::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void RunClock::Start(double before_s) {
  started_ = Clock::now();
  before_s_ = before_s;
}

double RunClock::run_s() const { return started_ ? before_s_ + SecondsBetween(*started_, Clock::now()) : 0; }

double RunClock::init_s() const { return SecondsBetween(begun_, started_.value_or(Clock::now())); }

double ToMillis(double seconds) {
  constexpr double kMillis = 1000;
  return std::round(seconds * kMillis) / kMillis;
}

}  // namespace moka
