// A small state machine, spread -> tried -> gathered: each state is judged over 0.3 s, a trial has to gain 10 %, and
// pauses between failed trials double up to a minute, so that a machine where gathering does not help is left alone.
#include "core/threads/team_gathering.h"

#include <algorithm>
#include <utility>

namespace moka {
namespace {

constexpr double kSeenSeconds = 0.3;  // before a state is judged
constexpr double kBetter = 1.1;       // a trial has to give so much more
constexpr double kIdle = 0.25;        // of the other CPUs' time: nobody wants them
constexpr double kFirstPause = 0.5;   // seconds
constexpr double kLongestPause = 60;  // seconds
constexpr double kShareWorthTrying = 0.9;

}  // namespace

bool TeamGathering::Look(const Window& window) {
  pause_s_ -= window.seconds;
  if (std::exchange(is_settling_, false)) return state_ != State::kSpread;
  seen_.seconds += window.seconds;
  seen_.run_share += window.run_share * window.seconds;
  seen_.idle_share += window.idle_share * window.seconds;
  if (seen_.seconds < kSeenSeconds) return state_ != State::kSpread;
  const double run_share = seen_.run_share / seen_.seconds;
  const double idle_share = seen_.idle_share / seen_.seconds;
  seen_ = {};
  if (state_ == State::kSpread) {
    if (pause_s_ > 0 || idle_share > kIdle || run_share > kShareWorthTrying * kept_share_) return false;
    spread_share_ = run_share;
    Begin(State::kTried);
    return true;
  }
  if (idle_share > kIdle) return SpreadFor(kFirstPause);
  if (state_ == State::kTried && run_share < kBetter * spread_share_) {
    next_pause_s_ = std::clamp(2 * next_pause_s_, kFirstPause, kLongestPause);
    return SpreadFor(next_pause_s_);
  }
  if (run_share < spread_share_) return SpreadFor(kFirstPause);
  state_ = State::kGathered;
  next_pause_s_ = 0;
  return true;
}

bool TeamGathering::SpreadFor(double seconds) {
  Begin(State::kSpread);
  pause_s_ = seconds;
  return false;
}

void TeamGathering::Begin(State state) {
  is_settling_ = true;
  state_ = state;
  seen_ = {};
}

}  // namespace moka
