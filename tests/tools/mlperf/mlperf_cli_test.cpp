// MLPerf's log of small trainings through the binary, held to the rules: one rank, two, one that was stopped and went
// on, one that diverged; and solvers that the rules refuse.
#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/mlperf/mlperf_rules.h"

namespace moka {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MlperfCliTest : public CliTest {
 protected:
  // LeNet on 1,000 records in batches of 64: an epoch is 16 iterations.
  static std::string Words(const std::string& run, int test_interval, int max_iter) {
    Run();
    return StrCat(SolverTesting(test_interval), " max_iter=", max_iter, " --run=", run,
                  " mlperf.benchmark=resnet mlperf.submission_org=nobody mlperf.platform=tests");
  }
  static fs::path FolderOf(const std::string& run) { return folder_ / "runs" / StrCat(run, "-0001"); }
  static std::string LogOf(const std::string& run) { return ReadFile(FolderOf(run) / "mllog.txt"); }
  static double Milliseconds(const std::string& log, const std::string& key) {
    for (const std::string& line : Split(log, '\n')) {
      if (line.find(StrCat("\"key\": \"", key, "\"")) == std::string::npos) continue;
      return Json::parse(line.substr(line.find('{'))).at("time_ms").get<double>();
    }
    ADD_FAILURE() << key;
    return 0;
  }
  static void ExpectAscendingTimes(const std::string& log) {
    double before = 0;
    for (const std::string& line : Split(log, '\n')) {
      if (line.empty()) continue;
      const double now = Json::parse(line.substr(line.find('{'))).at("time_ms").get<double>();
      EXPECT_GE(now, before) << line;
      before = now;
    }
  }
};

TEST_F(MlperfCliTest, OneRankKeepsTheRules) {
  const Outcome run = Moka(Words("one", 16, 40));
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string log = LogOf("one");
  EXPECT_THAT(MlperfComplaints(log, MlperfRuleset::k400), IsEmpty());
  EXPECT_TRUE(log.starts_with(":::MLLOG {\"namespace\": \"\", \"time_ms\": ")) << log.substr(0, 200);
  EXPECT_THAT(log, HasSubstr("\"metadata\": {\"file\": \"optim/run/mlperf_"));
  ExpectAscendingTimes(log);
  EXPECT_THAT(MlperfValues(log, "opt_name"), ElementsAre("\"sgd\""));
  EXPECT_THAT(MlperfValues(log, "global_batch_size"), ElementsAre("64"));
  EXPECT_THAT(MlperfValues(log, "train_samples"), ElementsAre("1000"));
  EXPECT_THAT(MlperfValues(log, "seed"), ElementsAre("5"));
  EXPECT_THAT(MlperfMetadata(log, "epoch_start", "epoch_num"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(MlperfMetadata(log, "epoch_stop", "epoch_num"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(MlperfMetadata(log, "eval_accuracy", "epoch_num"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(MlperfMetadata(log, "run_stop", "status"), ElementsAre("\"success\""));
  // Nothing is claimed that was not seen.
  const bool is_cold = MlperfValues(log, "cache_clear") == std::vector<std::string>{"true"};
  EXPECT_EQ(is_cold, run.err.find("the data are not cold at the start") == std::string::npos) << run.err;
  EXPECT_THAT(MlperfMetadata(log, "cache_clear", "files").at(0), testing::Ne("0"));
  // The log's clock is the run's.
  const Json clock = Json::parse(ReadFile(FolderOf("one") / "status.json")).at("clock");
  EXPECT_GE(clock.at("run_s").get<double>() * 1e3 + 5, Milliseconds(log, "run_stop") - Milliseconds(log, "run_start"));
  EXPECT_GE(clock.at("init_s").get<double>() * 1e3 + 50,
            Milliseconds(log, "run_start") - Milliseconds(log, "init_start"));
}

TEST_F(MlperfCliTest, RanksWriteOneLog) {
  const Outcome run = Moka(StrCat(Words("two", 20, 40), " --ranks=2"));
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string log = LogOf("two");
  EXPECT_THAT(MlperfComplaints(log, MlperfRuleset::k400), IsEmpty());
  ExpectAscendingTimes(log);
  EXPECT_THAT(MlperfValues(log, "global_batch_size"), ElementsAre("64"));
  EXPECT_THAT(MlperfValues(log, "epoch_start"), IsEmpty());
  EXPECT_THAT(MlperfMetadata(log, "block_start", "first_epoch_num"), ElementsAre("1", "2.28"));
  EXPECT_THAT(MlperfMetadata(log, "block_start", "epoch_count"), ElementsAre("1.28", "1.28"));
  EXPECT_THAT(MlperfMetadata(log, "block_stop", "samples_count"), ElementsAre("1280", "2560"));
  EXPECT_THAT(MlperfMetadata(log, "eval_accuracy", "iteration"), ElementsAre("0", "20", "40"));
}

TEST_F(MlperfCliTest, ARunThatWasStoppedGoesOnInItsLog) {
  const std::string words = Words("cut", 10, 300);
  ASSERT_EQ(MokaStopped(words, "grep -qs block_stop runs/cut-0001/mllog.txt").code, 75);
  const std::string stopped = LogOf("cut");
  EXPECT_THAT(MlperfMetadata(stopped, "run_stop", "status"), ElementsAre("\"aborted\""));
  EXPECT_THAT(MlperfComplaints(stopped, MlperfRuleset::k400), IsEmpty());
  const Outcome resumed = Moka("train --resume=runs/cut-0001");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const std::string log = LogOf("cut");
  EXPECT_THAT(MlperfComplaints(log, MlperfRuleset::k400), IsEmpty());
  ExpectAscendingTimes(log);
  EXPECT_TRUE(log.starts_with(stopped.substr(0, stopped.find("block_start"))));
  EXPECT_THAT(MlperfValues(log, "moka_resume"), testing::SizeIs(1));
  EXPECT_THAT(MlperfMetadata(log, "run_stop", "status"), ElementsAre("\"success\""));
  std::vector<std::string> tests;
  std::vector<std::string> blocks;
  for (int done = 0; done <= 300; done += 10) tests.push_back(std::to_string(done));
  for (int done = 0; done < 300; done += 10) blocks.push_back(std::to_string(done));
  EXPECT_EQ(MlperfMetadata(log, "eval_accuracy", "iteration"), tests);
  EXPECT_EQ(MlperfMetadata(log, "block_start", "iteration"), blocks);
}

TEST_F(MlperfCliTest, ARunThatDivergesOrMissesItsTargetIsAborted) {
  EXPECT_EQ(Moka(Words("wild", 10, 40) + " base_lr=1e30").code, 20);
  EXPECT_THAT(MlperfMetadata(LogOf("wild"), "run_stop", "status"), ElementsAre("\"aborted\""));
  EXPECT_EQ(Moka(Words("missed", 10, 20) + " target_metric=accuracy target_value=2").code, 21);
  EXPECT_THAT(MlperfMetadata(LogOf("missed"), "run_stop", "status"), ElementsAre("\"aborted\""));
  EXPECT_EQ(Moka(Words("reached", 10, 300) + " target_metric=accuracy target_value=0.5").code, 0);
  const std::string log = LogOf("reached");
  EXPECT_THAT(MlperfMetadata(log, "run_stop", "status"), ElementsAre("\"success\""));
  EXPECT_GT(std::stod(MlperfValues(log, "eval_accuracy").back()), 0.5);
  EXPECT_THAT(MlperfComplaints(log, MlperfRuleset::k400), IsEmpty());
}

TEST_F(MlperfCliTest, WrongWordsLeaveNoRun) {
  const auto refused = [&](const std::string& more, const std::string& text) {
    const Outcome outcome = Moka(StrCat(Words("refused", 10, 20), " ", more));
    EXPECT_NE(outcome.code, 0) << more;
    EXPECT_THAT(outcome.err, HasSubstr(text)) << more;
  };
  refused("mlperf.division=clsoed", "did you mean \"closed\"?");
  refused("mlperf.metric=acuracy", "did you mean \"accuracy\"?");
  refused("mlperf.division=closed", "eval_accuracy must be a target_metric with a target_value of 0.759 or more");
  refused("mlperf.division=closed target_metric=accuracy target_value=0.76",
          "sgd_opt_learning_rate_decay_poly_power must be lr_policy \"poly\"");
  refused("mlperf.subject=1", "subject");
  EXPECT_FALSE(fs::exists(FolderOf("refused")));
}

}  // namespace
}  // namespace moka
