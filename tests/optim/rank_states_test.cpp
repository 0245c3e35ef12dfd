#include "optim/rank_states.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Four ranks that work side by side.
std::vector<RankState> FourRanks() {
  std::vector<RankState> states;
  for (int rank = 0; rank < 4; ++rank)
    states.push_back({rank, rank < 2 ? "a" : "b", 100 + rank, "running", 40, 1203, 2, "conv4", 1000.0 + 0.2 * rank});
  return states;
}

TEST(CulpritTest, RanksSideBySideHaveNone) {
  EXPECT_FALSE(FindCulprit(FourRanks(), 4));
  EXPECT_FALSE(FindCulprit({}, 4)) << "a job that wrote no states tells nothing";
}

TEST(CulpritTest, ARankThatFellSilentIsNamedWithItsPlace) {
  std::vector<RankState> states = FourRanks();
  states[2].updated_s = 990;
  states[2].collective = 1202;
  const std::optional<Culprit> culprit = FindCulprit(states, 4);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 2);
  EXPECT_EQ(culprit->host, "b");
  EXPECT_EQ(culprit->text,
            "rank 2 on b (pid 102) fell silent 10.6 s before the last of the others: iteration 40, collective 1202, "
            "bucket 2, last layer conv4");
}

TEST(CulpritTest, ASlowRankIsTheOneBehindInCollectives) {
  std::vector<RankState> states = FourRanks();
  states[1].collective = 1201;
  const std::optional<Culprit> culprit = FindCulprit(states, 4);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 1);
  EXPECT_NE(culprit->text.find("is behind all others: iteration 40, collective 1201"), std::string::npos);
  states[3].collective = 1201;  // two of them: either may be the cause
  EXPECT_FALSE(FindCulprit(states, 4));
}

TEST(CulpritTest, ARankThatFailedItselfComesFirst) {
  std::vector<RankState> states = FourRanks();
  states[0].updated_s = 900;
  states[3].state = "failed";
  EXPECT_EQ(FindCulprit(states, 4)->rank, 3);
}

TEST(CulpritTest, ARankThatNeverWroteIsNamed) {
  std::vector<RankState> states = FourRanks();
  states.erase(states.begin() + 1);
  const std::optional<Culprit> culprit = FindCulprit(states, 4);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 1);
  EXPECT_TRUE(culprit->host.empty());
}

TEST(CulpritTest, SilenceWithinClocksAndHeartbeatsIsNone) {
  std::vector<RankState> states = FourRanks();
  states[0].updated_s = 1000.2 - kSilentS + 0.1;
  EXPECT_FALSE(FindCulprit(states, 4));
  states[0].updated_s = 1000.2 - kSilentS - 0.1;
  EXPECT_EQ(FindCulprit(states, 4)->rank, 0);
}

TEST(RankStatesTest, AreReadFromTheRunsFiles) {
  const fs::path run = fs::temp_directory_path() / StrCat("moka_rank_states_", getpid());
  EXPECT_TRUE(ReadRankStates(run, 0).empty());
  fs::create_directories(run / "ranks");
  std::ofstream(run / "ranks/rank-1.json") << R"({"rank":1,"host":"b","pid":7,"state":"waiting","iteration":3,)"
                                           << R"("collective":12,"bucket":0,"layer":"ip1","updated_s":50.5})";
  std::ofstream(run / "ranks/rank-0.json") << R"({"rank":0,"updated_s":50})";
  std::ofstream(run / "ranks/rank-2.json") << R"({"rank":2,"updated_s":20})";  // of an earlier session
  std::ofstream(run / "ranks/rank-3.json") << R"({"rank":3,"upd)";             // cut
  std::ofstream(run / "ranks/rank-4.json") << R"({"rank":"four","updated_s":50})";
  const std::vector<RankState> states = ReadRankStates(run, 40);
  fs::remove_all(run);
  ASSERT_EQ(states.size(), 2U);
  EXPECT_EQ(states[0].rank, 0);
  EXPECT_EQ(states[0].bucket, -1);
  EXPECT_EQ(states[1].host, "b");
  EXPECT_EQ(states[1].state, "waiting");
  EXPECT_EQ(states[1].collective, 12);
  EXPECT_EQ(states[1].layer, "ip1");
}

}  // namespace
}  // namespace moka
