// The run's clock: it starts with the loop, every line of metrics.jsonl and the status have it, and a resumed run goes
// on from what its checkpoint had.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "optim/run/run_clock.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

void SleepMs(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Sleeps where an iteration ends, in a test and where a checkpoint is written.
class SlowObserver : public TrainObserver {
 public:
  void OnIteration(const TrainProgress& progress) override {
    SleepMs(2);
    EXPECT_GE(progress.clock_s, clock_s);
    clock_s = progress.clock_s;
  }
  void OnTestBatch(int /*net*/, int64_t /*done*/, int64_t /*all*/) override { SleepMs(5); }
  void OnCheckpoint(const std::filesystem::path& /*path*/, bool /*is_best*/) override { SleepMs(20); }
  double clock_s = 0;
};

class RunClockTest : public TrainerTest {
 protected:
  static std::unique_ptr<Trainer> Continue(RunFolder& run, TrainObserver& observer, const std::string& solver) {
    TrainerOptions options;
    options.run = &run;
    options.observer = &observer;
    options.resume = FindNewestValid(run.checkpoints());
    return Make(solver, std::move(options));
  }
  static nlohmann::json ClockOf(const RunFolder& run) {
    return nlohmann::json::parse(ReadFile(run.path() / "status.json")).at("clock");
  }
};

TEST_F(RunClockTest, ItIsZeroBeforeItStartsAndGoesOnFromASessionBefore) {
  RunClock clock(RunClock::Clock::now() - std::chrono::seconds(3));
  EXPECT_FALSE(clock.has_started());
  EXPECT_EQ(clock.run_s(), 0);
  EXPECT_GE(clock.init_s(), 3);
  clock.Start(100);
  const double init_s = clock.init_s();
  SleepMs(3);
  EXPECT_EQ(clock.init_s(), init_s);
  EXPECT_GE(clock.run_s(), 100.003);
  EXPECT_LT(clock.run_s(), 160);
  EXPECT_EQ(ToMillis(1.23456), 1.235);
}

TEST_F(RunClockTest, LinesAscendAndAResumedRunContinues) {
  const std::string solver = BaseSolver() + "display: 1 test_interval: 10 snapshot: 10";
  RunFolder run = NewRun();
  SlowObserver observer;
  double at_checkpoint_s = 0;
  {
    Continue(run, observer, solver + "|max_iter: 12")->Run();
    const std::optional<Checkpoint> kept = FindNewestValid(run.checkpoints());
    ASSERT_TRUE(kept.has_value());
    at_checkpoint_s = kept->trainer.clock_s;
    // Iterations, two tests of four batches and the checkpoint of iteration 10 are inside.
    EXPECT_GE(at_checkpoint_s, 12 * 2e-3 + 2 * 4 * 5e-3 + 20e-3);
    EXPECT_GE(ClockOf(run).at("run_s").get<double>(), at_checkpoint_s - 1e-3);
    EXPECT_GT(ClockOf(run).at("init_s").get<double>(), 0);
  }
  SleepMs(50);
  observer.clock_s = at_checkpoint_s;
  const auto resumed = Continue(run, observer, solver);
  const auto begun = std::chrono::steady_clock::now();
  resumed->Run();
  const double session_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const double run_s = ClockOf(run).at("run_s").get<double>();
  EXPECT_GT(run_s, at_checkpoint_s);
  EXPECT_LE(run_s, at_checkpoint_s + session_s + 1e-3) << "the pause is not in it";
  double before_s = 0;
  int lines = 0;
  for (const MetricLine& line : ReadMetrics(run.path())) {
    ASSERT_TRUE(line.clock_s.has_value());
    EXPECT_GE(*line.clock_s, before_s) << line.split << " " << line.iteration;
    EXPECT_LE(*line.clock_s, run_s);
    before_s = *line.clock_s;
    ++lines;
    for (const auto& [name, value] : line.metrics) EXPECT_NE(name, "clock_s");
  }
  EXPECT_EQ(lines, 30 + 4);
  EXPECT_GT(before_s, at_checkpoint_s);
  const std::string plots = ReadFile(run.path() / "plots/loss.csv");
  EXPECT_THAT(plots, testing::Not(testing::HasSubstr("clock_s")));
}

}  // namespace
}  // namespace moka
