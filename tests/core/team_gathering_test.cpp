// When a team gives CPUs to others, told by windows of a tenth of a second.
#include "core/threads/team_gathering.h"

#include <gtest/gtest.h>

namespace moka {
namespace {

// The answer to the last of `windows` equal windows.
bool LookOften(TeamGathering& gathering, int windows, double run_share, double idle_share) {
  bool gathers = false;
  for (int i = 0; i < windows; ++i) {
    gathers = gathering.Look({.seconds = 0.1, .run_share = run_share, .idle_share = idle_share});
  }
  return gathers;
}

// The windows until the answer is as wanted; `limit` if it never is.
int WindowsUntil(TeamGathering& gathering, bool wanted, double run_share, double idle_share, int limit) {
  int windows = 0;
  while (windows < limit && LookOften(gathering, 1, run_share, idle_share) != wanted) ++windows;
  return windows;
}

TEST(TeamGatheringTest, ATeamThatRunsMoreWhenGatheredStays) {
  TeamGathering gathering(0.5);
  EXPECT_LT(WindowsUntil(gathering, true, 0.3, 0, 50), 6);
  EXPECT_TRUE(LookOften(gathering, 100, 0.48, 0.02));
}

TEST(TeamGatheringTest, ATrialThatDoesNotHelpEndsAndIsRepeatedMoreAndMoreRarely) {
  TeamGathering gathering(0.5);
  int last_pause = 0;
  for (int trial = 0; trial < 7; ++trial) {
    const int pause = WindowsUntil(gathering, true, 0.3, 0, 1000);
    EXPECT_GT(pause, last_pause) << trial;
    last_pause = pause;
    EXPECT_LT(WindowsUntil(gathering, false, 0.31, 0, 50), 6) << trial;
  }
  EXPECT_GT(last_pause, 100);
  EXPECT_LT(WindowsUntil(gathering, true, 0.3, 0, 1000), 700) << "a minute at most";
}

TEST(TeamGatheringTest, ATeamSpreadsAsSoonAsTheOthersLeaveCpusIdle) {
  TeamGathering gathering(0.5);
  ASSERT_LT(WindowsUntil(gathering, true, 0.3, 0, 50), 50);
  ASSERT_TRUE(LookOften(gathering, 20, 0.49, 0));
  EXPECT_LT(WindowsUntil(gathering, false, 0.49, 0.9, 50), 6);
}

TEST(TeamGatheringTest, ATeamThatRunsLessThanItDidSpreadsAgain) {
  TeamGathering gathering(0.5);
  ASSERT_LT(WindowsUntil(gathering, true, 0.3, 0, 50), 50);
  ASSERT_TRUE(LookOften(gathering, 20, 0.45, 0));
  EXPECT_LT(WindowsUntil(gathering, false, 0.2, 0, 50), 6);
}

TEST(TeamGatheringTest, NothingIsTriedWhereItCannotHelp) {
  TeamGathering running(0.5);
  EXPECT_FALSE(LookOften(running, 200, 0.53, 0)) << "the team already runs for more than half of the time";
  TeamGathering waiting(0.5);
  EXPECT_FALSE(LookOften(waiting, 200, 0.1, 0.6)) << "it waits for something else than a CPU";
}

}  // namespace
}  // namespace moka
