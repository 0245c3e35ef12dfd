// The culprit of a stalled training, found from states of ranks.
#include "optim/ranks/rank_states.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <tuple>

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

// Every rank waits in one collective for one that does not send.
std::vector<RankState> Waiting(int culprit) {
  std::vector<RankState> states = FourRanks();
  for (RankState& state : states) {
    if (state.rank != culprit) state.waits_for = {culprit};
  }
  return states;
}

TEST(CulpritTest, TheRankThatOthersWaitForIsNamed) {
  std::vector<RankState> states = Waiting(2);
  states[2].waits_for = {0, 1, 3};  // its messages are lost, so it waits until they are taken
  states[2].is_sending = true;
  const std::optional<Culprit> culprit = FindCulprit(states, 4);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 2);
  EXPECT_EQ(culprit->text,
            "rank 2 on b (pid 102) is waited for by ranks 0, 1, 3: iteration 40, collective 1203, bucket 2, last layer "
            "conv4");
}

TEST(CulpritTest, OfAChainOfWaitsTheLowestPlaceTells) {
  std::vector<RankState> ring = FourRanks();  // a ring in which rank 2 is silent: each round lacks another's
  for (const auto& [rank, waits_for, round] : {std::tuple(3, 2, 0), {0, 3, 1}, {1, 0, 2}, {2, 1, 3}}) {
    ring[static_cast<size_t>(rank)].waits_for = {waits_for};
    ring[static_cast<size_t>(rank)].round = round;
  }
  EXPECT_EQ(FindCulprit(ring, 4)->rank, 2);
  ring[1].collective = 1202;  // an earlier collective comes before an earlier round
  EXPECT_EQ(FindCulprit(ring, 4)->rank, 0);
}

TEST(CulpritTest, OfAPipelineTheRankThatDoesNotWaitIsNamed) {
  std::vector<RankState> states = FourRanks();
  for (const int rank : {0, 1, 2}) states[static_cast<size_t>(rank)].waits_for = {rank + 1};
  const std::optional<Culprit> culprit = FindCulprit(states, 4);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 3);
  states[3].waits_for = {0};
  EXPECT_FALSE(FindCulprit(states, 4)) << "all wait for each other";
}

TEST(CulpritTest, WhatASilentRankWaitedForIsTooOld) {
  std::vector<RankState> states = Waiting(2);
  states[2].waits_for = {1};
  states[2].collective = 1202;
  states[2].updated_s = 996;
  const std::optional<Culprit> culprit = FindCulprit(states, 4);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 2);
  EXPECT_NE(culprit->text.find("is waited for by ranks 0, 1, 3 and silent for 4.6 s: "), std::string::npos)
      << culprit->text;
}

TEST(CulpritTest, TwoThatAreWaitedForAlikeAreNotToldApart) {
  std::vector<RankState> states = FourRanks();
  states[0].waits_for = {1, 2};
  states[3].waits_for = {1, 2};
  EXPECT_FALSE(FindCulprit(states, 4));
}

TEST(CulpritTest, ARankThatDoesNotAnswerToTheEndOfTheJobIsGone) {
  std::vector<RankState> states = FourRanks();
  for (RankState& state : states) state.is_stopping = true;
  EXPECT_FALSE(FindCulprit(states, 4)) << "all were asked and none is gone";
  states[1].is_stopping = false;
  const std::optional<Culprit> culprit = FindCulprit(states, 4);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->text.substr(0, 48), "rank 1 on a (pid 101) ended without a word: iter");
}

TEST(CulpritTest, WhatWasSaidWhenARankWasGivenUpStands) {
  std::vector<RankState> states = FourRanks();
  states[0].lost = states[3].lost = 2;
  states[0].verdict = states[3].verdict = "rank 2 on b is waited for";
  states[2].lost = 1;
  states[1].updated_s = 900;
  const std::optional<Culprit> culprit = FindCulprit(states, 4);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 2);
  EXPECT_EQ(culprit->host, "b");
  EXPECT_EQ(culprit->text, "rank 2 on b is waited for");
}

TEST(CulpritTest, ARankAtWorkIsOneThatSaysSoAndWaitsForNobody) {
  std::vector<RankState> states = FourRanks();
  EXPECT_FALSE(IsOneWorking(states, 1, 990));
  states[0].state = "writing";
  EXPECT_TRUE(IsOneWorking(states, 1, 990));
  EXPECT_FALSE(IsOneWorking(states, 0, 990)) << "its own work is not waited for";
  EXPECT_FALSE(IsOneWorking(states, 1, 1000.1)) << "it has fallen silent";
  states[0].is_stopping = true;
  EXPECT_TRUE(IsOneWorking(states, 1, 990)) << "a checkpoint is written to its end";
  states[0].waits_for = {2};
  EXPECT_FALSE(IsOneWorking(states, 1, 990));
}

TEST(RankStatesTest, WhatIsWrittenIsRead) {
  const fs::path run = fs::temp_directory_path() / StrCat("moka_rank_states_", getpid());
  fs::create_directories(run / "ranks");
  RankState state{3, "b", 7, "testing", 40, 1203, 2, "conv4", 50.25};
  state.waits_for = {0, 2};
  state.round = 1;
  state.is_sending = true;
  state.batch = 24;
  state.lost = 2;
  state.verdict = "rank 2";
  state.is_stopping = true;
  state.exit_code = 65;
  state.layer = "conv\xFF";  // no UTF-8, as JSON must be
  WriteRankState(run, state);
  const std::vector<RankState> states = ReadRankStates(run, 0);
  fs::remove_all(run);
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].waits_for, state.waits_for);
  EXPECT_EQ(states[0].round, 1);
  EXPECT_TRUE(states[0].is_sending);
  EXPECT_EQ(states[0].batch, 24);
  EXPECT_EQ(states[0].lost, 2);
  EXPECT_EQ(states[0].verdict, "rank 2");
  EXPECT_TRUE(states[0].is_stopping);
  EXPECT_EQ(states[0].exit_code, 65);
  EXPECT_EQ(states[0].layer, "conv\xEF\xBF\xBD");
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
