// Trainings that a signal or the clock leaves in the middle of a test or of an accumulation: the run that goes on ends
// as one that was never stopped.
#include <csignal>
#include <fstream>

#include "optim/signals.h"
#include "optim/step/train_turns.h"
#include "ranks_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Asks to stop at the second batch of the tests of an iteration; `iteration` -1: never.
class AskingObserver : public TrainObserver {
 public:
  explicit AskingObserver(int64_t iteration, int net = 0) : iteration_(iteration), net_(net) {}
  void OnIteration(const TrainProgress& progress) override { done_ = progress.iteration; }
  void OnTestBatch(int net, int64_t done, int64_t /*all*/) override {
    if (net == net_ && done_ == iteration_ && done == 2) std::raise(SIGTERM);
  }
  void SetDone(int64_t iteration) { done_ = iteration; }

 private:
  int64_t iteration_;
  int net_;
  int64_t done_ = 0;
};

class CutTest : public RanksTest {
 protected:
  // Goes on with the run from its newest checkpoint, if it has one.
  static std::unique_ptr<Trainer> Continue(RunFolder& run, const std::string& solver, const SolverNets& nets,
                                           AskingObserver* observer, std::optional<double> max_time_s = {}) {
    TrainerOptions options;
    options.run = &run;
    options.observer = observer;
    options.max_time_s = max_time_s;
    options.resume = FindNewestValid(run.checkpoints());
    if (options.resume && observer != nullptr) observer->SetDone(options.resume->trainer.iteration);
    return Make(solver, options, nets);
  }
  static std::vector<int64_t> TestsOf(const fs::path& run, const std::string& split) {
    std::vector<int64_t> iterations;
    for (const MetricLine& line : ReadMetrics(run)) {
      if (line.split == split) iterations.push_back(line.iteration);
    }
    return iterations;
  }
  static void ExpectSame(const Trainer& a, const Trainer& b) {
    EXPECT_EQ(Everything(a), Everything(b));
    EXPECT_EQ(a.state().best, b.state().best);
    EXPECT_EQ(a.state().best_iteration, b.state().best_iteration);
    EXPECT_EQ(a.state().tests_since_best, b.state().tests_since_best);
    EXPECT_EQ(a.state().smoothed_loss, b.state().smoothed_loss);
    EXPECT_EQ(a.state().plateau, b.state().plateau);
    EXPECT_FALSE(a.state().is_test_due);
  }
};

TEST_F(CutTest, ATestThatIsLeftIsMadeAnew) {
  const std::string solver = BaseSolver() + "test_iter: 4 base_lr: 0.01";
  const SolverNets nets = Nets(2);
  RunFolder unbroken = NewRun("unbroken");
  const auto whole = Continue(unbroken, solver, nets, nullptr);
  whole->Run();
  for (const int net : {0, 1}) {
    for (const int64_t at : {0, 10, 20, 30}) {
      RunFolder run = NewRun();
      {
        const SignalRequests signals;
        AskingObserver observer(at, net);
        const TrainResult cut = Continue(run, solver, nets, &observer)->Run();
        ASSERT_EQ(cut.end, TrainEnd::kInterrupted) << at;
        EXPECT_EQ(cut.exit_code(), 75);
        EXPECT_EQ(cut.iteration, at) << "the test is left at once, not after more iterations";
      }
      const std::optional<Checkpoint> kept = FindNewestValid(run.checkpoints());
      ASSERT_TRUE(kept.has_value()) << at;
      EXPECT_EQ(kept->trainer.iteration, at);
      EXPECT_TRUE(kept->trainer.is_test_due) << at;
      const auto resumed = Continue(run, solver, nets, nullptr);
      EXPECT_EQ(resumed->Run().end, TrainEnd::kFinished);
      ExpectSame(*resumed, *whole);
      EXPECT_EQ(TestsOf(run.path(), "test"), (std::vector<int64_t>{0, 10, 20, 30})) << at;
      EXPECT_EQ(TestsOf(run.path(), "test1"), (std::vector<int64_t>{0, 10, 20, 30})) << at;
      EXPECT_EQ(ReadFile(run.path() / "results.csv"), ReadFile(unbroken.path() / "results.csv")) << at;
      EXPECT_EQ(fs::read_symlink(run.checkpoints() / "best"), fs::read_symlink(unbroken.checkpoints() / "best"));
    }
  }
}

TEST_F(CutTest, TheClockLeavesAnAccumulation) {
  const std::string solver = BaseSolver() +
                             "iter_size: 3 max_iter: 6 test_interval: 100 test_initialization: false type: \"Adam\" "
                             "base_lr: 0.01 lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 2";
  const auto whole = Make(solver);
  whole->Run();
  RunFolder run = NewRun();
  constexpr double kAtOnce = 1e-9;
  const TrainResult first = Continue(run, solver, Nets(), nullptr, kAtOnce)->Run();
  EXPECT_EQ(first.end, TrainEnd::kTimeUp);
  EXPECT_EQ(first.iteration, 0);
  TrainerOptions options;
  options.run = &run;
  options.stop_after = 3;
  options.resume = FindNewestValid(run.checkpoints());
  ASSERT_TRUE(options.resume.has_value()) << "what was drawn is kept even before the first iteration";
  const auto until3 = Make(solver, options);
  until3->Run();
  // From iteration 3, whose statistics and positions are no longer the first.
  const auto left = Continue(run, solver, Nets(), nullptr, kAtOnce);
  const TrainResult second = left->Run();
  EXPECT_EQ(second.end, TrainEnd::kTimeUp);
  EXPECT_EQ(second.iteration, 3);
  EXPECT_EQ(Everything(*left), Everything(*until3)) << "the batches of the accumulation have left nothing";
  std::map<std::string, int64_t> positions;
  SavePositions(left->turns(), positions);
  EXPECT_EQ(positions, until3->state().positions);
  const auto resumed = Continue(run, solver, Nets(), nullptr);
  EXPECT_EQ(resumed->Run().end, TrainEnd::kFinished);
  ExpectSame(*resumed, *whole);
}

TEST_F(CutTest, RanksLeaveATestTogether) {
  const std::string solver =
      "base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 max_iter: 20 display: 5 random_seed: 3 test_iter: 400 "
      "test_interval: 10";
  const SignalRequests signals;
  const std::vector<Result> results = Train(2, solver, Plain(), [&](int rank, TrainerOptions& options) {
    static AskingObserver observer(10);
    options.take_signals = true;
    if (rank == 0) options.observer = &observer;
  });
  for (const Result& result : results) {
    EXPECT_EQ(result.end.end, TrainEnd::kInterrupted);
    EXPECT_EQ(result.end.iteration, 10);
    EXPECT_TRUE(result.state.is_test_due);
  }
  EXPECT_EQ(results[0].values, results[1].values);
}

}  // namespace
}  // namespace moka
