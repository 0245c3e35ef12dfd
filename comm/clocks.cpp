#include "comm/clocks.h"

#include <cstring>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "core/trace.h"

namespace moka {
namespace {

constexpr int kRoundTrips = 16;

std::string ClocksBytesOf(int64_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

int64_t ClocksValueOf(const std::string& bytes) {
  int64_t value = 0;
  Require(bytes.size() == sizeof value, "a clock is a number of 8 bytes");
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

RankClock ClockOfThisMachine() {
  RankClock clock{{}, NowMicros};
  std::ifstream("/proc/sys/kernel/random/boot_id") >> clock.id;
  return clock;
}

ClockOffset MeasureClock(Communicator& world, const RankClock& clock) {
  const std::vector<std::string> ids = world.AllGather(clock.id);
  const auto reads_first = [&](int rank) { return !ids[0].empty() && ids[static_cast<size_t>(rank)] == ids[0]; };
  ClockOffset offset{.at_micros = clock.now()};
  if (world.is_first()) {
    for (int peer = 1; peer < world.size(); ++peer) {
      for (int i = 0; i < kRoundTrips && !reads_first(peer); ++i) {
        (void)world.Receive(peer);
        world.Send(peer, ClocksBytesOf(clock.now()));
      }
    }
    return offset;
  }
  if (reads_first(world.rank())) return offset;
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < kRoundTrips; ++i) {  // the first one waits for the ranks before this one
    const int64_t sent = clock.now();
    world.Send(0, ClocksBytesOf(sent));
    const int64_t first = ClocksValueOf(world.Receive(0));
    const int64_t answered = clock.now();
    if (answered - sent >= shortest) continue;
    shortest = answered - sent;
    offset = {.at_micros = answered, .micros = first - (sent + shortest / 2), .error_micros = (shortest + 1) / 2};
  }
  return offset;
}

}  // namespace moka
