// Schedules of all algorithms: proven right for many numbers of ranks, with the rounds and elements their files say;
// and wrong schedules of every kind are found.
#include "comm/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/schedule/schedule_check.h"
#include "core/text.h"

namespace moka {
namespace {

std::vector<Schedule> SchedulesOf(const AllReduceAlgorithm& algorithm, const Arrangement& arrangement) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < arrangement.ranks; ++rank) schedules.push_back(algorithm.make(arrangement, rank));
  return schedules;
}

TEST(Schedule, ChunksCoverTheMessageInWholeLines) {
  for (const int64_t elements : {0, 1, 15, 16, 17, 100, 1000, 4096}) {
    for (const int64_t chunks : {1, 2, 3, 7, 16}) {
      EXPECT_EQ(ChunkBegin(elements, chunks, 0), 0);
      EXPECT_EQ(ChunkBegin(elements, chunks, chunks), elements);
      for (int64_t i = 0; i < chunks; ++i) {
        EXPECT_LE(ChunkBegin(elements, chunks, i), ChunkBegin(elements, chunks, i + 1));
        EXPECT_TRUE(ChunkBegin(elements, chunks, i) % 16 == 0 || ChunkBegin(elements, chunks, i) == elements);
      }
    }
  }
}

TEST(Schedule, EveryAlgorithmIsProvenForManyRanks) {
  int proven = 0;
  for (const AllReduceAlgorithm& algorithm : AllReduceAlgorithms()) {
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 24, 32, 48, 64}) {
      for (const int group : {1, 2, 3, 4, 8}) {
        Arrangement arrangement{.ranks = ranks, .group = group};
        arrangement.dimensions = {group, std::max(ranks / group, 1)};
        if (ranks % 8 == 0 && group == 4) arrangement.dimensions = {2, 4, ranks / 8};
        if ((group > 1 && !algorithm.has_groups && !algorithm.has_dimensions) ||
            !algorithm.refuse(arrangement).empty()) {
          continue;
        }
        ASSERT_EQ(CheckAllReduce(SchedulesOf(algorithm, arrangement), algorithm.has_fixed_order), "")
            << algorithm.name << " " << ranks << " ranks, groups of " << group;
        ++proven;
      }
    }
  }
  EXPECT_GE(proven, 300);
}

TEST(Schedule, ShortFormsAreProvenAsWell) {
  int proven = 0;
  for (const AllReduceAlgorithm& algorithm : AllReduceAlgorithms()) {
    for (const int ranks : {2, 3, 4, 7, 8, 16, 33}) {
      const Arrangement arrangement{.ranks = ranks, .group = 1, .dimensions = {1, ranks}};
      if (!algorithm.refuse(arrangement).empty()) continue;
      std::vector<Schedule> schedules = SchedulesOf(algorithm, arrangement);
      const int64_t most = schedules[0].short_elements;
      for (Schedule& schedule : schedules) {
        EXPECT_EQ(schedule.short_elements, most) << "ranks take one form";
        EXPECT_EQ(&schedule.RoundsOf(most + 1), &schedule.rounds);
        schedule.rounds = schedule.RoundsOf(most);
      }
      if (most == 0) continue;
      ASSERT_EQ(CheckAllReduce(schedules, algorithm.has_fixed_order), "") << algorithm.name << " " << ranks << " ranks";
      EXPECT_EQ(schedules[0].rounds.size(), 1U);
      EXPECT_EQ(SentElements(schedules[0], most), most * (ranks - 1));
      ++proven;
    }
  }
  EXPECT_EQ(proven, 7) << "direct alone has one";
}

TEST(Schedule, OrdersThatAreNotFixedAreFound) {
  for (const char* name : {"ring", "torus"}) {
    const std::vector<Schedule> schedules =
        SchedulesOf(FindAllReduce(name), {.ranks = 9, .group = 3, .dimensions = {3, 3}});
    EXPECT_EQ(CheckAllReduce(schedules, false), "") << name;
    EXPECT_NE(CheckAllReduce(schedules, true).find("another order than chunk 0"), std::string::npos) << name;
  }
}

// Elements sent, of a message of so many that all chunks are alike.
int64_t Sent(const char* name, const Arrangement& arrangement, int rank, int64_t elements) {
  return SentElements(FindAllReduce(name).make(arrangement, rank), elements);
}
size_t Rounds(const char* name, const Arrangement& arrangement, int rank) {
  return FindAllReduce(name).make(arrangement, rank).rounds.size();
}

TEST(Schedule, RoundsAndElementsAreThoseOfTheFiles) {
  for (const int ranks : {2, 3, 4, 6, 8, 16}) {
    const int64_t n = 16 * 2882880;  // whole lines for every number of chunks here
    const Arrangement flat{.ranks = ranks};
    const auto power = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
    const auto log = static_cast<size_t>(std::countr_zero(static_cast<unsigned>(power)));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(Rounds("direct", flat, rank), 2U);
      EXPECT_EQ(Sent("direct", flat, rank, n), 2 * (ranks - 1) * n / ranks);
      EXPECT_EQ(Rounds("ring", flat, rank), static_cast<size_t>(2 * (ranks - 1)));
      EXPECT_EQ(Sent("ring", flat, rank, n), 2 * (ranks - 1) * n / ranks);
      const bool is_pair = rank < 2 * (ranks - power);
      const bool is_odd = is_pair && rank % 2 == 1;
      const size_t more = is_pair ? 3 : 0;
      const int64_t folded = is_pair ? 3 * n / 2 : 0;  // of the even rank; the odd one sends two halves
      EXPECT_EQ(Rounds("recursive_doubling", flat, rank), (is_odd ? 0 : log) + more);
      EXPECT_EQ(Sent("recursive_doubling", flat, rank, n), is_odd ? n : static_cast<int64_t>(log) * n + folded);
      EXPECT_EQ(Rounds("halving_doubling", flat, rank), (is_odd ? 0 : 2 * log) + more);
      EXPECT_EQ(Sent("halving_doubling", flat, rank, n), is_odd ? n : 2 * (power - 1) * n / power + folded);
    }
  }
  const int64_t n = 16 * 2882880;
  for (const auto& [ranks, group] : {std::pair{8, 4}, {8, 2}, {16, 4}, {32, 8}}) {
    const int groups = ranks / group;
    const Arrangement grouped{.ranks = ranks, .group = group, .dimensions = {group, groups}};
    const auto log = static_cast<size_t>(std::countr_zero(static_cast<unsigned>(groups)));
    for (int rank = 0; rank < ranks; ++rank) {
      const bool is_first = rank % group == 0;
      EXPECT_EQ(Rounds("hierarchical", grouped, rank), is_first ? static_cast<size_t>(2 * (groups - 1) + 2) : 2U);
      EXPECT_EQ(Sent("hierarchical", grouped, rank, n), is_first ? (group - 1) * n + 2 * (groups - 1) * n / groups : n);
      EXPECT_EQ(Rounds("two_level", grouped, rank), 2 + 2 * log);
      EXPECT_EQ(Sent("two_level", grouped, rank, n),
                2 * (group - 1) * n / group + 2 * (groups - 1) * n / groups / group);
      EXPECT_EQ(Rounds("torus", grouped, rank), static_cast<size_t>(2 * (group - 1 + groups - 1)));
      EXPECT_EQ(Sent("torus", grouped, rank, n), 2 * (group - 1) * n / group + 2 * (groups - 1) * n / groups / group);
    }
  }
}

// A rank's part in both trees, as its schedule tells: whom it takes sums from are its children.
struct PlaceInTrees {
  std::array<std::set<int>, 2> parents;
  std::array<std::set<int>, 2> children;
};
PlaceInTrees TreesOf(const Schedule& schedule) {
  PlaceInTrees place;
  for (const Round& round : schedule.rounds) {
    for (const Transfer& t : round.receives) {
      (t.adds ? place.children : place.parents)[static_cast<size_t>(2 * t.first / schedule.chunks)].insert(t.peer);
    }
  }
  return place;
}

TEST(Schedule, DoubleBinaryTreesHaveEachRankInsideOneOfThem) {
  constexpr int64_t kElements = 16 * 2 * 3 * 16 * 10;  // whole lines for every number of pieces here
  int proven = 0;
  for (int ranks = 1; ranks <= 20; ++ranks) {
    for (const int group : {1, 2, 3, 4, 5, 8, 20}) {
      for (const int pieces : {1, 3, 16}) {
        const Arrangement arrangement{.ranks = ranks, .group = group, .pieces = pieces};
        const AllReduceAlgorithm& tree = FindAllReduce("double_binary_tree");
        if (!tree.refuse(arrangement).empty()) continue;
        SCOPED_TRACE(StrCat(ranks, " ranks, groups of ", group, ", ", pieces, " pieces"));
        const std::vector<Schedule> schedules = SchedulesOf(tree, arrangement);
        ASSERT_EQ(CheckAllReduce(schedules, false), "");
        ++proven;
        const bool is_plain = group == 1 || group == ranks;
        const auto log = [](int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; };
        const int levels = log(group) + log(ranks / group);
        std::array<int, 2> roots = {};
        std::vector<int> leaving(static_cast<size_t>(ranks / group), 0);  // half messages from a group to others
        for (const Schedule& schedule : schedules) {
          const PlaceInTrees place = TreesOf(schedule);
          EXPECT_TRUE(place.children[0].empty() || place.children[1].empty()) << schedule.rank;
          size_t peers = 0;
          for (size_t t = 0; t < 2; ++t) {
            roots[t] += place.parents[t].empty() ? 1 : 0;
            EXPECT_LE(place.parents[t].size(), 1U);
            EXPECT_LE(place.children[t].size(), is_plain ? 2U : 4U);
            peers += place.parents[t].size() + place.children[t].size();
            for (const std::set<int>* all : {&place.parents[t], &place.children[t]}) {
              for (const int peer : *all) {
                leaving[static_cast<size_t>(schedule.rank / group)] += peer / group != schedule.rank / group ? 1 : 0;
              }
            }
          }
          EXPECT_EQ(SentElements(schedule, kElements), static_cast<int64_t>(peers) * kElements / 2);
          EXPECT_LE(peers, is_plain ? 4U : 6U);
          EXPECT_LE(schedule.rounds.size(), static_cast<size_t>(2 * (2 * levels + pieces - 1)));
          for (const Round& round : schedule.rounds) {  // of two to one peer it would not be known which comes first
            std::set<int> to;
            for (const Transfer& t : round.sends) EXPECT_TRUE(to.insert(t.peer).second);
          }
        }
        EXPECT_EQ(roots, (std::array{1, 1}));
        EXPECT_LE(*std::ranges::max_element(leaving), 4);
      }
    }
  }
  EXPECT_GE(proven, 100);
}

TEST(Schedule, DoubleBinaryTreesOfEightRanksAreThoseOfTheFile) {
  // The first: 7 above 3 above 1 and 5, these above 0, 2 and 4, 6; the other is its mirror.
  const AllReduceAlgorithm& tree = FindAllReduce("double_binary_tree");
  const auto at = [&](int rank) { return TreesOf(tree.make({.ranks = 8, .group = 8, .pieces = 4}, rank)); };
  EXPECT_EQ(at(3).children[0], (std::set{1, 5}));
  EXPECT_EQ(at(3).parents[0], std::set{7});
  EXPECT_EQ(at(4).children[1], (std::set{2, 6}));
  EXPECT_EQ(at(0).children[1], std::set{4});
  // Leaves of the first tree give 4 pieces up at once, and the first comes down after three levels up and three down.
  const Schedule schedule = tree.make({.ranks = 8, .group = 1, .pieces = 1}, 2);
  ASSERT_FALSE(schedule.rounds.empty());
  EXPECT_EQ(schedule.rounds[0].sends[0].peer, 1);
  EXPECT_EQ(tree.refuse({.ranks = 4, .pieces = 4097}), "there are 4096 pieces at most");
}

// Two ranks that exchange one chunk.
std::vector<Schedule> Exchange() {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 2; ++rank) {
    const int other = 1 - rank;
    schedules.push_back({.rank = rank,
                         .size = 2,
                         .chunks = 1,
                         .rounds = {{.sends = {{.peer = other}}, .receives = {{.peer = other, .adds = true}}}}});
  }
  return schedules;
}

TEST(ScheduleCheck, FindsWhatIsWrong) {
  EXPECT_EQ(CheckAllReduce(Exchange(), true), "");
  std::vector<Schedule> wrong = Exchange();
  wrong[1].rounds[0].sends.clear();
  EXPECT_EQ(CheckAllReduce(wrong, false), "rank 0 waits for ever in round 1 of 1");
  wrong = Exchange();
  wrong[1].rounds[0].receives.clear();
  EXPECT_EQ(CheckAllReduce(wrong, false), "rank 1 never takes a message of rank 0");
  wrong = Exchange();
  wrong[0].rounds[0].receives[0].adds = false;
  EXPECT_EQ(CheckAllReduce(wrong, false), "chunk 0 of rank 0 holds the values of 1 ranks only");
  wrong = Exchange();
  for (Schedule& schedule : wrong) schedule.rounds.push_back(schedule.rounds[0]);
  EXPECT_EQ(CheckAllReduce(wrong, false), "rank 0, round 2: values of a rank are added twice to chunk 0");
  wrong = Exchange();
  wrong[0].rounds[0].sends[0].peer = 2;
  EXPECT_EQ(CheckAllReduce(wrong, false), "rank 0, round 1: chunks [0, 1) and peer 2 are not all there");
  wrong = Exchange();
  wrong[1].size = 3;
  EXPECT_EQ(CheckAllReduce(wrong, false), "schedule 1 is of rank 1 of 3 with 1 chunks");
  wrong = Exchange();
  for (Schedule& schedule : wrong) schedule.chunks = 2;
  wrong[1].rounds[0].sends[0].first = 1;
  EXPECT_EQ(CheckAllReduce(wrong, false), "rank 0, round 1: it expects chunks [0, 1) of rank 1, which sends [1, 2)");
  EXPECT_EQ(CheckAllReduce({}, false), "there is no rank");
}

TEST(ScheduleCheck, FindsRanksThatEndWithOtherBits) {
  // Three ranks; each sums in the order in which it hears of the others.
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank) {
    Schedule schedule{.rank = rank, .size = 3};
    const int next = (rank + 1) % 3;
    const int before = (rank + 2) % 3;
    schedule.rounds = {{.sends = {{.peer = next}, {.peer = before}}, .receives = {{.peer = next, .adds = true}}},
                       {.receives = {{.peer = before, .adds = true}}}};
    schedules.push_back(schedule);
  }
  EXPECT_EQ(CheckAllReduce(schedules, false), "chunk 0 of rank 1 is added up in another order than rank 0's");
}

}  // namespace
}  // namespace moka
