// The file that a rank leaves of itself while it lives.
#include "optim/ranks/rank_beacon.h"

#include <unistd.h>

#include <atomic>

#include "optim_fixture.h"

namespace moka {
namespace {

class RankBeaconTest : public FolderTest {};

TEST_F(RankBeaconTest, WritesWhatItsRankDoesUntilItEnds) {
  std::filesystem::create_directory(At("run"));
  std::atomic<int64_t> iteration = 4;
  {
    const RankBeacon beacon(At("run"), 3, "here", [&] {
      RankState state;
      state.state = "testing";
      state.iteration = iteration;
      state.layer = "conv3";
      return state;
    });
    const std::vector<RankState> states = ReadRankStates(At("run"), 0);
    ASSERT_EQ(states.size(), 1U);
    EXPECT_EQ(states[0].rank, 3);
    EXPECT_EQ(states[0].host, "here");
    EXPECT_EQ(states[0].state, "testing");
    EXPECT_EQ(states[0].iteration, 4);
    EXPECT_EQ(states[0].layer, "conv3");
    EXPECT_EQ(states[0].pid, ::getpid());
    EXPECT_GT(states[0].updated_s, 1.7e9);
    iteration = 5;
  }
  EXPECT_EQ(ReadRankStates(At("run"), 0).at(0).iteration, 5);
}

}  // namespace
}  // namespace moka
