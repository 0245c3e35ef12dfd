// Which rank holds up the others, told from the files that ranks leave in the run's folder.
#include "optim/rank_beacon.h"

#include <fstream>

#include "optim_fixture.h"

namespace moka {
namespace {

class RankBeaconTest : public FolderTest {};

RankStatus StatusOf(int rank, int64_t collectives, double updated_s) {
  return {.rank = rank,
          .host = "node1",
          .pid = 100 + rank,
          .state = "training",
          .iteration = 17,
          .collectives = collectives,
          .bucket = 1,
          .layer = "conv3",
          .updated_s = updated_s};
}

std::vector<int> RanksOf(const std::vector<RankStatus>& statuses) {
  std::vector<int> ranks;
  for (const RankStatus& status : statuses) ranks.push_back(status.rank);
  return ranks;
}

TEST_F(RankBeaconTest, SilentRanksComeBeforeSlowOnes) {
  const double now = 1000;
  const auto laggards = [&](const std::vector<RankStatus>& statuses) {
    return RanksOf(FindLaggards(statuses, now, 3));
  };
  EXPECT_EQ(laggards({StatusOf(0, 9, 999), StatusOf(1, 8, 999), StatusOf(2, 9, 990)}), std::vector<int>{2});
  EXPECT_EQ(laggards({StatusOf(0, 9, 999), StatusOf(1, 8, 999), StatusOf(2, 9, 999)}), std::vector<int>{1});
  EXPECT_EQ(laggards({StatusOf(0, 9, 999), StatusOf(1, 9, 998)}), std::vector<int>{});
  EXPECT_EQ(laggards({}), std::vector<int>{});
}

TEST_F(RankBeaconTest, SaysWhereARankWas) {
  EXPECT_EQ(DescribeLaggard(StatusOf(2, 40, 994.75), 1000, 3),
            "rank 2 on node1 (process 102) has given no sign of life for 5.2 s; it was training in iteration 17, 40 "
            "all-reduces begun, in bucket 1, last gradient that of layer \"conv3\"");
  EXPECT_EQ(DescribeLaggard(StatusOf(2, 40, 999), 1000, 3).find("rank 2 on node1 (process 102) lives, and is training"),
            0U);
}

TEST_F(RankBeaconTest, WritesWhatItsRankDoesUntilItEnds) {
  std::atomic<int64_t> iteration = 4;
  {
    const RankBeacon beacon(At("run"), 3, "here", [&] {
      RankStatus status;
      status.state = "testing";
      status.iteration = iteration;
      return status;
    });
    const std::vector<RankStatus> statuses = ReadRankStatuses(At("run"));
    ASSERT_EQ(statuses.size(), 1U);
    EXPECT_EQ(statuses[0].rank, 3);
    EXPECT_EQ(statuses[0].host, "here");
    EXPECT_EQ(statuses[0].state, "testing");
    EXPECT_EQ(statuses[0].iteration, 4);
    EXPECT_EQ(statuses[0].pid, ::getpid());
    iteration = 5;
  }
  EXPECT_EQ(ReadRankStatuses(At("run")).at(0).iteration, 5);
  std::ofstream(At("run/ranks/rank-1.json")) << "{\"rank\": 1,";
  EXPECT_EQ(ReadRankStatuses(At("run")).size(), 1U);
  EXPECT_TRUE(ReadRankStatuses(At("nowhere")).empty());
}

}  // namespace
}  // namespace moka
