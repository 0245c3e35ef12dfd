// The messages that a rank reads from others before and between the steps of a training: texts, sums, the fields that
// must be equal, clocks, arrivals, a plan of communication. The first byte says what is asked, and the second which
// rank this one is.
#include <array>
#include <memory>
#include <vector>

#include "comm/algorithms/all_reduce_choice.h"
#include "comm/exchange/arrivals.h"
#include "comm/exchange/fusion_plan.h"
#include "comm/transport/clocks.h"
#include "comm/transport/communicator.h"
#include "comm/transport/same_on_all.h"
#include "core/text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/played_ranks.h"

namespace moka {
namespace {

FusionInput ThreeGradients() {
  FusionInput input;
  for (int i = 0; i < 3; ++i) input.gradients.push_back({.name = StrCat("g", i), .bytes = 8, .ready_s = i * 0.1});
  input.ranks = kPlayedRanks;
  return input;
}

void ReadPlan(Communicator& world) {
  static const FusionInput input = ThreeGradients();
  FusionPlan plan = PlanOfText(world.Broadcast({}, (world.rank() + 1) % kPlayedRanks));
  Require(PlanOfText(ToText(plan)) == plan, "plans read back");
  CheckPlan(plan, input);
  for (int64_t cut = 0; cut <= 3; ++cut) CutBucket(plan, input, cut);
  CheckPlan(plan, input);
}

void ReadArrivals(Communicator& world) {
  ArrivalLog log;
  log.Start(1);
  const ClockOffset clock{.at_micros = 1, .micros = 2, .error_micros = 3};
  ArrivalTable(GatherArrivals(world, log, clock, clock));
}

void Ask(char what, Communicator& world) {
  std::array<double, 3> numbers = {1, 2, 3};
  switch (what) {
    case 'b': world.Broadcast("own", (world.rank() + 1) % kPlayedRanks); return;
    case 'g': Require(world.AllGather("own").size() == kPlayedRanks, "a text a rank"); return;
    case 's': world.Sum(numbers); return;
    case 'm': world.Max(numbers); return;
    case 'r': world.Receive((world.rank() + 1) % kPlayedRanks); return;
    case 'e': RequireSame(world, "a\nb\n", "line"); return;
    case 'f': RequireSameFields(world, {{"solver.momentum", "0.9"}, {"version", "1", true}}); return;
    case 'c': MeasureClock(world, {"this", [] { return int64_t{5}; }}); return;
    case 'a': ReadArrivals(world); return;
    default: ReadPlan(world);
  }
}

}  // namespace

FuzzTarget RankMessageFuzz() {
  return {"rank_message", [](std::string_view bytes) {
            if (bytes.size() < 2) return;
            const int rank = static_cast<uint8_t>(bytes[1]) % kPlayedRanks;
            Communicator world(std::make_unique<PlayedRanks>(bytes.substr(2), rank));
            Ask(bytes.front(), world);
          }};
}

}  // namespace moka
