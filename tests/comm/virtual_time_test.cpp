// Schedules in virtual time: formulas worked by hand, and one node's ranks standing for all.
#include "comm/simulate/virtual_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/error.h"

namespace moka {
namespace {

std::string Never(const Arrangement&) { return {}; }

// Reduce-scatter and all-gather around a ring, a chunk a round.
Schedule Ring(const Arrangement& arrangement, int rank) {
  const int n = arrangement.ranks;
  Schedule schedule{rank, n, n, {}};
  for (int round = 0; round < 2 * (n - 1); ++round) {
    const bool adds = round < n - 1;
    const auto chunk = [&](int back) { return ((rank - round - back) % n + 2 * n + (adds ? 0 : 1)) % n; };
    schedule.rounds.push_back({{{(rank + 1) % n, chunk(0), 1, false}}, {{(rank + n - 1) % n, chunk(1), 1, adds}}});
  }
  return schedule;
}

// Whole messages with the rank whose number differs in one bit; a rank beyond the last power of two gives its values
// to a partner first and takes the sum at the end.
Schedule Doubling(const Arrangement& arrangement, int rank) {
  int power = 1;
  while (power * 2 <= arrangement.ranks) power *= 2;
  Schedule schedule{rank, arrangement.ranks, 1, {}};
  if (rank >= power) {
    schedule.rounds = {{{{rank - power}}, {}}, {{}, {{rank - power}}}};
    return schedule;
  }
  const bool has_partner = rank + power < arrangement.ranks;
  if (has_partner) schedule.rounds.push_back({{}, {{rank + power, 0, 1, true}}});
  for (int bit = 1; bit < power; bit *= 2) {
    schedule.rounds.push_back({{{rank ^ bit}}, {{rank ^ bit, 0, 1, true}}});
  }
  if (has_partner) schedule.rounds.push_back({{{rank + power}}, {}});
  return schedule;
}

// A group's members give all to its first rank, which does so with the first of all, and back.
Schedule Star(const Arrangement& arrangement, int rank) {
  const int k = arrangement.group;
  const int master = rank - rank % k;
  Schedule schedule{rank, arrangement.ranks, 1, {}};
  if (rank != master) {
    schedule.rounds = {{{{master}}, {}}, {{}, {{master}}}};
    return schedule;
  }
  Round gather;
  Round scatter;
  for (int i = 1; i < k; ++i) {
    gather.receives.push_back({rank + i, 0, 1, true});
    scatter.sends.push_back({rank + i});
  }
  schedule.rounds.push_back(gather);
  const int groups = arrangement.ranks / k;
  const int next = (rank + k) % arrangement.ranks;
  const int before = (rank + arrangement.ranks - k) % arrangement.ranks;
  for (int i = 0; i + 1 < groups; ++i) schedule.rounds.push_back({{{next}}, {{before, 0, 1, true}}});
  schedule.rounds.push_back(scatter);
  return schedule;
}

const AllReduceAlgorithm kRing{.name = "ring", .doc = {}, .refuse = Never, .make = Ring};
const AllReduceAlgorithm kDoubling{.name = "doubling", .doc = {}, .refuse = Never, .make = Doubling};
const AllReduceAlgorithm kStar{.name = "star", .doc = {}, .has_groups = true, .refuse = Never, .make = Star};

// Powers of two, so that sums are exact: 1 ms inside, 4 ms between nodes; 2^20 and 2^19 bytes a second.
Topology Machine(int devices_per_node) {
  Topology topology;
  topology.devices_per_node = devices_per_node;
  topology.inside = {0x1p-10, 0x1p20};
  topology.network = {0x1p-8, 0x1p19};
  topology.add_s = 0x1p-24;
  topology.call_s = 0x1p-9;
  return topology;
}

double Seconds(const AllReduceAlgorithm& algorithm, const Arrangement& arrangement, const Topology& topology,
               int64_t elements) {
  return VirtualSchedule::Of(algorithm, arrangement, topology).Seconds(elements, 4);
}

TEST(VirtualTime, RingInsideANodeIsTheFormula) {
  const Topology t = Machine(8);
  const int64_t n = 1 << 16;
  const double chunk_s = 4.0 * static_cast<double>(n) / 8 / t.inside.bytes_per_s;
  EXPECT_DOUBLE_EQ(Seconds(kRing, {.ranks = 8}, t, n),
                   t.call_s + 14 * (t.inside.alpha_s + chunk_s) + 7 * static_cast<double>(n) / 8 * t.add_s);
}

TEST(VirtualTime, RingOverNodesPaysEachHopInItsTurn) {
  // A chunk's way of 2 (P - 1) hops leaves out two of two rounds around the ring: the cheapest.
  const Topology t = Machine(4);
  EXPECT_DOUBLE_EQ(Seconds(kRing, {.ranks = 16}, t, 0),
                   t.call_s + 2 * (4 * t.network.alpha_s + 12 * t.inside.alpha_s) - 2 * t.inside.alpha_s);
  // Large messages: the network's rate is the whole ring's, one rank of each node uses it at a time.
  const int64_t n = int64_t{1} << 28;
  const double rounds_s = 30 * 4.0 * static_cast<double>(n) / 16 / t.network.bytes_per_s;
  EXPECT_NEAR(Seconds(kRing, {.ranks = 16}, t, n) / rounds_s, 1, 0.05);
}

TEST(VirtualTime, RanksOfANodeShareItsNetworkCard) {
  const Topology t = Machine(4);
  const int64_t n = 1 << 14;
  const double bytes = 4.0 * static_cast<double>(n);
  const double adds = 3 * static_cast<double>(n) * t.add_s;
  EXPECT_DOUBLE_EQ(Seconds(kDoubling, {.ranks = 8}, t, n),
                   t.call_s + 2 * (t.inside.alpha_s + bytes / t.inside.bytes_per_s) + t.network.alpha_s +
                       4 * bytes / t.network.bytes_per_s + adds);
}

TEST(VirtualTime, AMasterTakesOneMemberAfterTheOtherOverOneLink) {
  const Topology t = Machine(4);
  const int64_t n = 1 << 14;
  const double bytes = 4.0 * static_cast<double>(n);
  EXPECT_DOUBLE_EQ(
      Seconds(kStar, {.ranks = 4, .group = 4}, t, n),
      t.call_s + 2 * 3 * (t.inside.alpha_s + bytes / t.inside.bytes_per_s) + 3 * static_cast<double>(n) * t.add_s);
}

TEST(VirtualTime, OneNodeStandsForAll) {
  const Topology t = Machine(4);
  for (const AllReduceAlgorithm* algorithm : {&kRing, &kDoubling, &kStar}) {
    for (const int ranks : {8, 16, 32, 64}) {
      for (const int group : {2, 4, 8}) {
        const Arrangement arrangement{.ranks = ranks, .group = group};
        const VirtualSchedule one = VirtualSchedule::Of(*algorithm, arrangement, t);
        const VirtualSchedule all = VirtualSchedule::Of(*algorithm, arrangement, t, VirtualSchedule::Follow::kAllRanks);
        EXPECT_EQ(all.followed_ranks(), ranks);
        EXPECT_LE(one.followed_ranks(), 8) << algorithm->name << " among " << ranks;
        for (const int64_t elements : {0, 1000, 100000, 10000000}) {
          const double expected = all.Seconds(elements, 4);
          EXPECT_NEAR(one.Seconds(elements, 4), expected, expected * 1e-12) << algorithm->name << " among " << ranks;
        }
      }
    }
  }
}

TEST(VirtualTime, NodesThatDifferAreAllFollowed) {
  const Topology t = Machine(4);
  const VirtualSchedule twelve = VirtualSchedule::Of(kDoubling, {.ranks = 12}, t);
  EXPECT_EQ(twelve.followed_ranks(), 12);
  // Ranks 8 to 11 give what they have to 0 to 3, those sum inside their node, and what ranks 4 to 7 have sent over by
  // then has come already; the sum goes back.
  EXPECT_DOUBLE_EQ(twelve.Seconds(0, 4), t.call_s + 2 * t.network.alpha_s + 2 * t.inside.alpha_s);
  EXPECT_EQ(VirtualSchedule::Of(kRing, {.ranks = 9}, t).followed_ranks(), 9);
}

TEST(VirtualTime, ThousandsOfRanksTakeNoLongerThanANode) {
  const VirtualSchedule ring = VirtualSchedule::Of(kRing, {.ranks = 4096}, Machine(8));
  EXPECT_EQ(ring.followed_ranks(), 8);
  const double alpha = 4096.0 * (0x1p-8 + 7 * 0x1p-10) / 8;
  EXPECT_NEAR(ring.Seconds(0, 4), 2 * alpha, alpha * 1e-3);
  try {
    (void)VirtualSchedule::Of(kRing, {.ranks = 4097}, Machine(8));
    FAIL() << "too many rounds to follow";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_NE(error.text().find("4097 ranks"), std::string::npos) << error.text();
  }
}

TEST(VirtualTime, MoreElementsNeverTakeLess) {
  for (const AllReduceAlgorithm* algorithm : {&kRing, &kDoubling}) {
    const CostCurve curve = CurveOf(VirtualSchedule::Of(*algorithm, {.ranks = 32}, Machine(8)), 4);
    EXPECT_EQ(curve.points().size(), 21U);
    EXPECT_GT(curve.Seconds(1 << 30), curve.Seconds(1 << 20) * 100);
    const CostLine line = curve.Fit();
    EXPECT_GT(line.alpha_s, 0);
    EXPECT_GT(line.r_squared, 0.9);
  }
}

TEST(VirtualTime, MessagesThatDoNotMeetAreABrokenPromise) {
  AllReduceAlgorithm deaf = kRing;
  deaf.make = [](const Arrangement& arrangement, int rank) {
    return Schedule{rank, arrangement.ranks, 1, {{{{(rank + 1) % arrangement.ranks}}, {}}}};
  };
  EXPECT_THROW((void)VirtualSchedule::Of(deaf, {.ranks = 8}, Machine(4)), Error);
  AllReduceAlgorithm waiting = kRing;  // each rank waits before it sends
  waiting.make = [](const Arrangement& arrangement, int rank) {
    const int n = arrangement.ranks;
    return Schedule{rank, n, 1, {{{}, {{(rank + n - 1) % n}}}, {{{(rank + 1) % n}}, {}}}};
  };
  EXPECT_THROW((void)VirtualSchedule::Of(waiting, {.ranks = 8}, Machine(4)), Error);
}

}  // namespace
}  // namespace moka
