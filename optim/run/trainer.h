// The run loop. One thread; owns store, nets and report. An iteration is: batches, step, loss, display, count, test,
// checkpoint, requests. Iteration N means N updates are done, and what a checkpoint of N holds is everything up to and
// with the test at N, so a resumed run repeats nothing and continues bit for bit (same device, threads and data).
//
//   fresh or resumed -> [test at 0] -> step* with tests and checkpoints between -> finished | stopped | diverged
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange/exchange_planner.h"
#include "graph/parameter_store.h"
#include "optim/checkpoint/trainer_state.h"
#include "optim/ranks/rank_reporter.h"
#include "optim/run/by_product.h"
#include "optim/run/input_report.h"
#include "optim/run/mlperf_run.h"
#include "optim/run/report.h"
#include "optim/run/run_clock.h"
#include "optim/run/scaling_report.h"
#include "optim/run/trainer_options.h"
#include "optim/step/loss_signs.h"
#include "optim/step/test_net.h"
#include "optim/step/train_net.h"
#include "optim/step/train_turns.h"
#include "proto/nets/solver_file.h"
#include "proto/weights/weights.h"

namespace moka {

class Trainer {
 public:
  // Builds everything; the first iteration is ready to run. Errors: kConfig at the solver's or net's place, those of
  // data sources, weights and checkpoints.
  Trainer(const SolverParameter& solver, const SolverNets& nets, TrainerOptions options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  // Makes the folder of the solver's snapshot_prefix and sees that files can be written there under the layers' names;
  // nothing without a prefix, and nothing the second time. Run() does it if nobody has before. Errors: kCantCreate and
  // kConfig at the field.
  void PrepareSnapshots();
  // Where the run writes, once its configuration is known to be right; a resumed one is set back to here. Before Run().
  void SetRun(RunFolder& run);
  // Trains to the end. Errors: kDiverged naming the layer and the last good checkpoint, kBadData, kIo; status.json says
  // so too.
  TrainResult Run();

  const ParameterStore& store() const { return store_; }
  const TrainerState& state() const { return state_; }
  TrainNet& train_net() { return *train_; }  // of several turns, the one whose data count epochs
  const TrainTurns& turns() const { return *turns_; }
  TestNet& test_net(size_t i) { return *tests_.at(i); }
  // From now on this rank, one of several, says in the run's folder what it is doing, and names who holds up the
  // others. Before Run().
  void Watch(const std::filesystem::path& run_folder);
  // How the ranks exchange gradients; null with one.
  const ExchangePlanner* planner() const { return planner_.get(); }

 private:
  using Clock = std::chrono::steady_clock;

  void BuildNets(const SolverNets& nets);
  void SetLength();
  void BuildTestNet(int net, const SolverNets& nets, const PipelineOptions& data);
  void ChooseMetrics();
  void BuildTrainNet(const SolverNets& nets, const PipelineOptions& data);
  void StartWeights();
  void Restore(const Checkpoint& checkpoint);
  void RestoreCaffe(const std::filesystem::path& path);

  // These are for several ranks (optim/run/trainer_ranks.cpp): all call them at the same place of the training.
  void JoinRanks();
  void PlanExchange();
  void Replan();
  BatchPolicy Batches() const;
  // Errors: kConfig where compression takes longer than it saves.
  void CheckCompression() const;
  // Writes the plan to the log, and what its buckets took.
  void LogExchange() const;
  void TellWishes();
  void TakeWishes();
  void ReadWishes();
  bool IsTimeUp() const;
  // The mean over ranks of what each has computed on its part; as it is with one rank.
  std::vector<OutputValue> OverRanks(std::vector<OutputValue> outputs) const;
  void AwaitSnapshot();
  // Whether something follows the next iteration that all ranks must be alike for: a test, a checkpoint, the end.
  bool MustAgree() const;
  // Whether all ranks are at the same place after every iteration, with nothing on its way.
  bool IsTogether() const;
  void CancelExchange(const std::string& why) const noexcept;
  // Whether ranks test a part of the batches each; where they cannot, each tests all of them.
  void ShareTest(int net, bool is_evaluated, PipelineOptions& data) const;
  // Ranks that share the data: those of a pipeline share the layers.
  int64_t ranks() const { return is_pipeline_ ? 1 : processes(); }
  int64_t processes() const { return options_.world == nullptr ? 1 : options_.world->size(); }
  // Where layers are on several ranks: micro-batches are what iter_size are elsewhere.
  void StartPipeline(const NetParameter& net);
  // As it was given, without that.
  SolverParameter GivenSolver() const;
  bool is_first() const { return options_.world == nullptr || options_.world->is_first(); }
  // Samples of an iteration, all ranks and batches together.
  int64_t Batch() const { return train_->feed().batch_size() * turns_->lead_steps() * solver_.iter_size() * ranks(); }

  // Tells the other ranks and status.json that this training ends here, with what exit code.
  void Fail(std::string_view state, const std::string& why, int exit_code) noexcept;
  TrainResult Loop();
  // Data is touched from here on: the clock runs, and MLPerf's log, where there is one, says so.
  void StartClock();
  void Iterate();
  void Smooth(double loss);
  [[noreturn]] void Diverge(double loss);
  void Display();
  // Weights can become NaN while the loss stays finite (a ReLU makes 0 of NaN): asked before tests and checkpoints.
  void CheckWeights();
  // Runs every test net; true if net 0's ranking metric is the best so far.
  bool TestAll();
  bool RankTest(const std::vector<OutputValue>& outputs);
  void WriteSnapshot(bool is_best);
  void WriteCaffeSnapshot(const ParameterStore& slots);
  // snapshot_diff: what the last update took from each blob, 0 from those it leaves alone; empty without it.
  std::vector<std::vector<float>> LastUpdate() const;
  // Leaving what is under way (optim/run/trainer_cuts.cpp): what a signal or the clock asks of this rank, the request
  // staying; the question between the batches of an iteration and of a test, of which `done` are; all as before a test.
  std::optional<TrainEnd> AskedEnd() const;
  void AskInAccumulations();
  bool LeavesTest(int64_t done);
  void DropTest(const TrainerState& before, bool was_target_reached);
  // The test, the checkpoint and the end that follow an iteration, where they do.
  std::optional<TrainEnd> Settle();
  // Returns the end that the run comes to now, if any.
  std::optional<TrainEnd> Ending();
  void WriteStatus(std::string_view state, const std::string& error = {}, std::optional<int> exit_code = {});
  TrainProgress Progress() const;
  double Epoch() const;
  RunPoint Point() const { return {.iteration = state_.iteration, .epoch = Epoch(), .clock_s = clock_.run_s()}; }
  void Announce(std::string_view phase);
  TrainResult Result(TrainEnd end) const;

  SolverParameter solver_;
  TrainerOptions options_;
  RunClock clock_{options_.begun};
  uint64_t seed_ = 0;
  int64_t max_iter_ = 0;
  bool is_pipeline_ = false;
  ParameterStore store_;
  std::unique_ptr<TrainTurns> turns_;
  TrainNet* train_ = nullptr;                 // the lead's of the turns
  std::unique_ptr<ExchangePlanner> planner_;  // null with one rank
  std::unique_ptr<ScalingReport> scaling_;
  std::vector<std::unique_ptr<TestNet>> tests_;
  std::unique_ptr<TrainReport> report_;
  ByProduct samples_{"grids of samples"};
  InputReport input_;
  std::optional<LossSigns> signs_;  // from the first display on
  int64_t epochs_ = 0;              // ended
  double epoch_s_ = 0;              // train_s_ when the last one ended
  TrainerState state_;
  std::string best_metric_;  // empty: no test ranks the run
  ColdData cold_;
  MlperfRun mlperf_;
  std::string accuracy_;  // MLPerf's, an output of the first test net
  bool is_smaller_better_ = false;
  bool is_target_reached_ = false;

  std::vector<NamedBlob> before_update_;  // snapshot_diff: the blobs as they were

  std::filesystem::path last_checkpoint_;
  int64_t last_checkpoint_iteration_ = -1;
  int64_t resumed_at_ = -1;  // iteration of the checkpoint that this process goes on from; -1: none
  bool wants_stop_ = false;
  bool wants_snapshot_ = false;
  bool is_time_up_ = false;
  std::optional<TrainEnd> cut_;  // why an iteration or a test was left before its end
  struct TestAsk {               // where ranks asked each other last, and after how many batches they do it again
    int64_t batch = 0;
    int64_t stride = 1;
    Clock::time_point asked;
  } test_ask_;
  bool has_prepared_snapshots_ = false;
  double time_limit_s_ = 0;  // 0: none
  double checkpoint_s_ = 0;  // how long the last one took
  Clock::time_point started_;
  int64_t started_at_ = 0;  // iteration of this process's first
  Clock::time_point displayed_;
  int64_t displayed_at_ = 0;
  Clock::time_point heartbeat_;
  double train_s_ = 0;     // spent in iterations, tests and checkpoints left out
  RankReporter reporter_;  // last: its thread reads the others
};

}  // namespace moka
