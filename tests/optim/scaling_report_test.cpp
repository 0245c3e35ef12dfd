// The report of a training by several ranks on its time: parts of an iteration, efficiency with its baseline, who is
// slow.
#include "optim/run/scaling_report.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "core/file.h"
#include "ranks_fixture.h"

namespace moka {
namespace {

using Json = nlohmann::json;

class ScalingReportTest : public RanksTest {
 protected:
  // Trains with ranks as threads, of which one sleeps so long after each iteration; the first has a run.
  static void Train(int ranks, RunFolder& run, int slow_rank, std::chrono::milliseconds sleep,
                    const std::optional<ScalingBaseline>& baseline = {}) {
    class Sleeper : public TrainObserver {
     public:
      explicit Sleeper(std::chrono::milliseconds time) : time_(time) {}
      void OnIteration(const TrainProgress&) override { std::this_thread::sleep_for(time_); }

     private:
      std::chrono::milliseconds time_;
    } sleeper(sleep);
    RanksTest::Train(ranks, "base_lr: 0.1 lr_policy: \"fixed\" max_iter: 30 random_seed: 3",
                     Nets(0, TaskNet(16, false)), [&](int rank, TrainerOptions& options) {
                       options.baseline = baseline;
                       if (rank == 0) options.run = &run;
                       if (rank == slow_rank) options.observer = &sleeper;
                     });
  }
  static Json LastReport(const RunFolder& run) {
    const std::vector<std::string> lines = Split(ReadFile(run.path() / kScalingFile), '\n');
    return Json::parse(lines.at(lines.size() - 2));
  }
  // Two ranks of 8 samples: 10 ms a step, rank 1 with 2 ms of input, rank 0 waits 4 ms for communication, 3 of them for
  // rank 1, which waits 1 ms.
  static ScalingSummary TwoRanks() {
    ScalingSummary summary{.iterations = 50, .batch = {.ranks = 2, .of_rank = 4, .iter_size = 2}};
    summary.names = {"rank 0 on left", "rank 1 on right"};
    summary.ranks = {{.step_s = 10e-3, .input_s = 0, .exposed_s = 4e-3, .wait_s = 3e-3},
                     {.step_s = 10e-3, .input_s = 2e-3, .exposed_s = 1e-3, .wait_s = 0}};
    summary.arrivals.iterations = 50;
    summary.arrivals.latest = 1;
    summary.arrivals.ranks.resize(2);
    for (RankArrivals& rank : summary.arrivals.ranks) rank.buckets.resize(1);
    summary.arrivals.ranks[1].buckets[0] = {3e-3, 5e-3};
    summary.arrivals.ranks[1].behind_median_s = 3e-3;
    summary.arrivals.ranks[1].behind_mean_s = 1.5e-3;
    summary.arrivals.ranks[1].error_s = 0.2e-3;
    summary.arrivals.ranks[1].last_part = 0.98;
    return summary;
  }
};

TEST_F(ScalingReportTest, PartsAddUpAndEfficiencyIsOfThem) {
  const ScalingSummary summary = TwoRanks();
  EXPECT_NEAR(summary.mean().exposed_s, 2.5e-3, 1e-12);
  EXPECT_NEAR(summary.mean().compute_s(), 6.5e-3, 1e-12);
  EXPECT_NEAR(summary.efficiency(), 0.75, 1e-9);
  EXPECT_EQ(summary.rank_batch(), 8);
  EXPECT_EQ(ScalingTable(summary),
            "rank              step  compute  input  transfer  wait  late  (90 %)  last in\n"
            "rank 0 on left   10.00     6.00   0.00      1.00  3.00  0.00  (0.00)      0 %\n"
            "rank 1 on right  10.00     7.00   2.00      1.00  0.00  3.00  (5.00)     98 %\n"
            "mean             10.00     6.50   1.00      1.00  1.50\n");
  const std::vector<std::string> lines = Sentences(summary);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(
      lines[0],
      "efficiency 75.0 %: a step without communication and waiting for ranks, 7.50 ms, over the step, 10.00 ms; 2 "
      "ranks, 8 samples each in both (weak scaling, these ranks their own baseline)");
  EXPECT_EQ(lines[1], "strong efficiency is not known: --baseline takes a run of one rank with batch 16");
  EXPECT_EQ(lines[2],
            "rank 1 on right is slow: 3.00 ms behind the median of the ranks, the last in 98 % of iterations; on "
            "average a rank waits 1.50 ms of a step for others");
}

TEST_F(ScalingReportTest, ARankIsNotSlowWithinAPartOfTheStepTheErrorOfClocksOrByChance) {
  ScalingSummary summary = TwoRanks();
  summary.arrivals.clock_error_s = 4e-3;
  EXPECT_FALSE(summary.has_slow_rank());
  EXPECT_EQ(Sentences(summary)[2],
            "no rank is slow throughout: the latest, rank 1 on right, is 3.00 ms behind the median of the ranks on "
            "average, the last in 98 % of iterations");
  summary.arrivals.clock_error_s = 0;
  EXPECT_TRUE(summary.has_slow_rank());
  summary.arrivals.ranks[1].error_s = 0.4e-3;
  EXPECT_FALSE(summary.has_slow_rank()) << "now this one, now that";
  summary.arrivals.ranks[1].error_s = 0;
  summary.arrivals.iterations = 4;
  EXPECT_FALSE(summary.has_slow_rank()) << "too few to tell";
  summary.arrivals.iterations = 5;
  EXPECT_TRUE(summary.has_slow_rank());
  summary.arrivals.ranks[1].behind_median_s = 0.4e-3;
  EXPECT_FALSE(summary.has_slow_rank());
}

TEST_F(ScalingReportTest, EfficiencyAgainstARunSaysWhatKindItIs) {
  ScalingSummary summary = TwoRanks();
  summary.baseline = ScalingBaseline{.name = "one-0001", .ranks = 1, .rank_batch = 8, .step_s = 8e-3};
  EXPECT_NEAR(summary.efficiency_against(), 0.8, 1e-9);
  EXPECT_EQ(Sentences(summary)[1],
            "weak efficiency 80.0 % against 1 rank of one-0001: 8 samples each in 10.00 ms here, 8 in 8.00 ms there");
  summary.baseline->rank_batch = 16;
  summary.baseline->step_s = 15e-3;
  EXPECT_NEAR(summary.efficiency_against(), 0.75, 1e-9);
  EXPECT_TRUE(Sentences(summary)[1].starts_with("strong efficiency 75.0 % against 1 rank of one-0001: 8 samples each"));
  summary.baseline->rank_batch = 5;
  EXPECT_TRUE(Sentences(summary)[1].starts_with("efficiency "));
  EXPECT_NE(Sentences(summary)[1].find("it is no scaling of one problem"), std::string::npos);
}

TEST_F(ScalingReportTest, ARankThatSleepsIsNamedInLogAndFiles) {
  RunFolder run = NewRun();
  Train(4, run, 2, std::chrono::milliseconds(12));
  const Json json = LastReport(run);
  EXPECT_EQ(json.at("ranks"), 4);
  EXPECT_EQ(json.at("rank_batch"), 4);
  EXPECT_EQ(json.at("batch"), 16);
  EXPECT_EQ(json.at("iter"), 30);
  EXPECT_EQ(json.at("arrivals").at("latest_rank"), 2);
  EXPECT_EQ(json.at("arrivals").at("is_slow"), true);
  EXPECT_EQ(json.at("arrivals").at("clock_error_ms"), 0.0);
  ASSERT_EQ(json.at("per_rank").size(), 4U);
  for (size_t r = 0; r < 4; ++r) {
    const Json& rank = json.at("per_rank")[r];
    const auto number = [&](const char* name) { return rank.at(name).get<double>(); };
    EXPECT_EQ(rank.at("name"), StrCat("rank ", r, " on this host"));
    EXPECT_NEAR(number("compute_ms") + number("input_ms") + number("exposed_ms"), number("step_ms"), 0.003);
    EXPECT_LE(number("wait_ms"), number("exposed_ms") + 1e-9);
    if (r == 2) {
      EXPECT_GT(number("behind_median_ms"), 6);
      EXPECT_GT(number("last_part"), 0.7);
      EXPECT_LT(number("wait_ms"), 6);
    } else {
      EXPECT_GT(number("wait_ms"), 6) << r;
    }
  }
  const double efficiency = json.at("efficiency");
  EXPECT_GT(efficiency, 0);
  EXPECT_LT(efficiency, 0.7) << "three of four ranks wait most of the time";
  bool has_metrics = false;
  for (const MetricLine& line : ReadMetrics(run.path())) {
    if (line.split != "scaling") continue;
    for (const auto& [name, value] : line.metrics) {
      if (name != "latest_rank") continue;
      has_metrics = true;
      EXPECT_EQ(value, 2);
    }
  }
  EXPECT_TRUE(has_metrics);
}

TEST_F(ScalingReportTest, ARunOfOneRankIsABaseline) {
  RunFolder one = NewRun("one");
  TrainerOptions options;
  options.run = &one;
  Make("base_lr: 0.1 lr_policy: \"fixed\" max_iter: 30 random_seed: 3", std::move(options), Nets(0))->Run();
  const ScalingBaseline baseline = ReadScalingBaseline(one.path());
  EXPECT_EQ(baseline.name, "one-0001");
  EXPECT_EQ(baseline.ranks, 1);
  EXPECT_EQ(baseline.rank_batch, 16);
  EXPECT_GT(baseline.step_s, 0);
  RunFolder two = NewRun("two");
  Train(2, two, -1, {}, baseline);
  const Json json = LastReport(two);
  const double step_ms = json.at("mean").at("step_ms");
  EXPECT_NEAR(json.at("baseline").at("efficiency").get<double>(), (8 / step_ms) / (16 / (baseline.step_s * 1e3)), 1e-3);
  EXPECT_EQ(json.at("rank_batch"), 8);
}

TEST_F(ScalingReportTest, WhatIsNoBaselineIsRefused) {
  const auto refusal = [&](const std::filesystem::path& folder) {
    try {
      (void)ReadScalingBaseline(folder);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorKind::kInternal, "accepted");
  };
  EXPECT_EQ(refusal(At("nowhere")).kind(), ErrorKind::kNoInput);
  std::filesystem::create_directories(At("damaged"));
  for (const char* text :
       {"", "no json\n", "{\"ranks\":1}\n", "{\"ranks\":0,\"rank_batch\":4,\"mean\":{\"step_ms\":1}}"}) {
    WriteFileAtomically(At("damaged") / kScalingFile, text);
    EXPECT_EQ(refusal(At("damaged")).kind(), ErrorKind::kBadData) << text;
  }
  WriteFileAtomically(At("damaged") / kScalingFile,
                      "{\"ranks\":2,\"rank_batch\":4,\"mean\":{\"step_ms\":1.5}}\n{\"ranks\":2,\"rank_b");
  EXPECT_EQ(ReadScalingBaseline(At("damaged")).rank_batch, 4) << "a line that a kill cut is passed over";
}

}  // namespace
}  // namespace moka
