// The exchange of time stamps with the first rank: several round trips, of which the shortest bounds the error by half
// its length. Ranks of one machine share a monotonic clock and skip it.
#include "comm/transport/clocks.h"

#include <fstream>
#include <span>
#include <vector>

#include "comm/transport/rank_values.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

constexpr int kRoundTrips = 16;

std::string BytesOf(int64_t value) { return BytesOfValues(std::span<const int64_t>(&value, 1)); }

int64_t TimeOfRank(const Communicator& world, int rank, const std::string& text) {
  int64_t micros = 0;
  TakeValues(world, rank, text, std::span(&micros, 1));
  if (micros < 0 || micros > kMostMicros) RefuseMessage(world, rank, StrCat("the time ", micros, " us"));
  return micros;
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
        world.Send(peer, BytesOf(clock.now()));
      }
    }
    return offset;
  }
  if (reads_first(world.rank())) return offset;
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < kRoundTrips; ++i) {  // the first one waits for the ranks before this one
    const int64_t sent = clock.now();
    world.Send(0, BytesOf(sent));
    const int64_t first = TimeOfRank(world, 0, world.Receive(0));
    const int64_t answered = clock.now();
    if (answered - sent >= shortest) continue;
    shortest = answered - sent;
    offset = {.at_micros = answered, .micros = first - (sent + shortest / 2), .error_micros = (shortest + 1) / 2};
  }
  return offset;
}

}  // namespace moka
