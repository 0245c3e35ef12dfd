// How far this process's clock (NowMicros) is from the one that a training's ranks agree on, the first rank's.
#pragma once

#include <algorithm>
#include <cstdint>

namespace moka {

struct ClockOffset {
  int64_t at_micros = 0;     // by this process's clock, when it was measured
  int64_t micros = 0;        // the common clock less this one
  int64_t error_micros = 0;  // the truth is at most so far away
};

// A time of this process on the common clock. Clocks run at slightly different rates (some 10 parts in a million), so
// between two measurements the offset goes evenly from one to the other; outside of them it stays.
inline int64_t OnCommonClock(int64_t micros, const ClockOffset& before, const ClockOffset& after) {
  const int64_t span = after.at_micros - before.at_micros;
  if (span <= 0) return micros + before.micros;
  const int64_t passed = std::clamp<int64_t>(micros - before.at_micros, 0, span);
  const double drift = static_cast<double>(after.micros - before.micros);
  return micros + before.micros + static_cast<int64_t>(drift * static_cast<double>(passed) / static_cast<double>(span));
}

}  // namespace moka
