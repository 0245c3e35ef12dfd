// Schedules of all algorithms: proven right for many numbers of ranks, with the rounds and elements their files say;
// and wrong schedules of every kind are found.
#include "comm/schedule.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/schedule_check.h"
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
