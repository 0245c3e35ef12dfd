// Durations, what may change on resume, signals as requests, and the log's lines.
#include <csignal>

#include "optim/run/report.h"
#include "optim/run/trainer_options.h"
#include "optim/signals.h"
#include "optim_fixture.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

TEST(DurationTest, AcceptsTheUsualSpellings) {
  EXPECT_EQ(ParseDuration("90s"), 90);
  EXPECT_EQ(ParseDuration("30m"), 1800);
  EXPECT_EQ(ParseDuration("1.5h"), 5400);
  EXPECT_EQ(ParseDuration("2d"), 172800);
  EXPECT_EQ(ParseDuration("01:50:00"), 6600);
  EXPECT_EQ(ParseDuration("50:00"), 3000);
  EXPECT_EQ(ParseDuration("12"), 12);
}

TEST(DurationTest, RefusesTheRest) {
  for (const char* text : {"", "h", "-5s", "5x", "1:2:3:4", "1e9s", "1:x", "nan"}) {
    EXPECT_EQ(ErrorOf([&] { ParseDuration(text); }).kind, ErrorKind::kUsage) << text;
  }
}

TEST(ResumeTest, OnlyTheLengthAndNarrationMayChange) {
  const std::string before = "net: \"a\"\nbase_lr: 0.1\nlr_policy: \"fixed\"\nmax_iter: 10\ndisplay: 1\n";
  Checkpoint checkpoint;
  checkpoint.path = "c/iter_0000005";
  checkpoint.solver_text = SolverToText(Solver(before));
  const NetParameter net;
  checkpoint.net_text = "";
  EXPECT_NO_THROW(CheckResume(checkpoint, Solver(before), net));
  EXPECT_NO_THROW(
      CheckResume(checkpoint, Solver("net: \"a\" base_lr: 0.1 lr_policy: \"fixed\" max_iter: 99 snapshot: 3"), net));
  const Caught caught = ErrorOf(
      [&] { CheckResume(checkpoint, Solver("net: \"a\" base_lr: 0.2 lr_policy: \"fixed\" momentum: 0.5"), net); });
  EXPECT_EQ(caught.kind, ErrorKind::kUsage);
  EXPECT_THAT(caught.text, testing::HasSubstr("was base_lr: 0.1; is base_lr: 0.2, momentum: 0.5"));
  NetParameter other;
  other.set_name("other");
  EXPECT_THAT(ErrorOf([&] { CheckResume(checkpoint, Solver(before), other); }).text,
              testing::HasSubstr("the train net changed since iter_0000005"));
}

TEST(ResumeTest, NetsOfEarlierCheckpointsAreTheSameNets) {
  const auto net = [](const std::string& text) { return NetFromText(text, "n.prototxt"); };
  const std::string solver = "base_lr: 0.1 lr_policy: \"fixed\"";
  Checkpoint checkpoint;
  checkpoint.path = "c/iter_0000005";
  checkpoint.solver_text = SolverToText(Solver(solver));
  const auto norm = [](const std::string& ranks) {
    return StrCat("layer { name: \"bn\" type: \"BatchNorm\" batch_norm_param { sync_ranks: ", ranks, " } }");
  };
  const NetParameter named = net(norm("0") + "layer { name: \"ReLU\" type: \"ReLU\" }");
  // The older text of a net of several ranks, without names, and of one rank, with the rank's own number in sync_ranks.
  for (const std::string& old :
       {norm("0") + "layer { type: \"ReLU\" }", norm("1") + "layer { name: \"ReLU\" type: \"ReLU\" }"}) {
    checkpoint.net_text = NetToText(net(old));
    EXPECT_NO_THROW(CheckResume(checkpoint, Solver(solver), named)) << old;
  }
  checkpoint.net_text = NetToText(net(norm("2") + "layer { type: \"ReLU\" }"));
  EXPECT_THAT(ErrorOf([&] { CheckResume(checkpoint, Solver(solver), named); }).text,
              testing::HasSubstr("was sync_ranks: 2; is sync_ranks: 0"));
}

TEST(SignalTest, RequestsAreTakenOnce) {
  const SignalRequests requests(SignalEffect::kNone, SignalEffect::kSnapshot);
  EXPECT_EQ(SignalRequests::Take(), SignalEffect::kNone);
  raise(SIGHUP);
  EXPECT_EQ(SignalRequests::Take(), SignalEffect::kSnapshot);
  EXPECT_EQ(SignalRequests::Take(), SignalEffect::kNone);
  raise(SIGTERM);
  raise(SIGHUP);
  EXPECT_EQ(SignalRequests::Take(), SignalEffect::kStop);
  raise(SIGINT);
  raise(SIGINT);
}

TEST(SignalDeathTest, ASecondInterruptEndsTheProcessWith130) {
  EXPECT_EXIT(
      {
        const SignalRequests requests;
        raise(SIGINT);
        raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(ReportTest, LinesAreCaffes) {
  EXPECT_EQ(TrainLine(100, 12.5, 8, 100, 0.123456789), "Iteration 100 (12.5 iter/s, 8s/100 iters), loss = 0.123457");
  EXPECT_EQ(OutputLine(false, 0, {"loss", 0.25, 0.5}), "    Train net output #0: loss = 0.25 (* 0.5 = 0.125 loss)");
  EXPECT_EQ(OutputLine(true, 1, {"accuracy", 0.99, 0}), "    Test net output #1: accuracy = 0.99");
}

TEST(ReportTest, OutputsWithSeveralElementsAreNumbered) {
  const Metrics metrics = MetricsOf({{"a", 1, 0}, {"b", 2, 0}, {"b", 3, 0}});
  ASSERT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics[0].first, "a");
  EXPECT_EQ(metrics[2].first, "b[1]");
}

TEST(ReportTest, EndsMapToTheContractsCodes) {
  EXPECT_EQ(TrainResult{.end = TrainEnd::kFinished}.exit_code(), 0);
  EXPECT_EQ(TrainResult{.end = TrainEnd::kTargetMissed}.exit_code(), 21);
  EXPECT_EQ(TrainResult{.end = TrainEnd::kInterrupted}.exit_code(), 75);
}

TEST(RandomKeyTest, IsExactInADoubleAndDiffers) {
  EXPECT_NE(RandomKey(1, 0, 0), RandomKey(1, 1, 0));
  EXPECT_NE(RandomKey(1, 0, 0), RandomKey(1, 0, 1));
  EXPECT_NE(RandomKey(1, 0, 0), RandomKey(2, 0, 0));
  EXPECT_EQ(RandomKey(1, 5, 2), RandomKey(1, 5, 2));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GE(RandomKey(3, i, 0), 0);
    EXPECT_LT(RandomKey(3, i, 0), int64_t{1} << 53);
  }
}

}  // namespace
}  // namespace moka
