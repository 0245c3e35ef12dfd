// The options of a training besides its solver, the events that it reports while it runs, and its ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport/communicator.h"
#include "graph/program.h"
#include "optim/checkpoint/checkpoint.h"
#include "optim/run/run_clock.h"
#include "optim/run/run_folder.h"
#include "optim/run/scaling_baseline.h"
#include "optim/step/train_net.h"

namespace moka {

struct TrainProgress {
  int64_t iteration = 0;  // done
  int64_t max_iteration = 0;
  double epoch = 0;  // 0 when the data has no end
  double loss = 0;   // smoothed
  double lr = 0;
  double images_per_s = 0;
  double eta_s = 0;
  double clock_s = 0;  // of the run's clock (optim/run/run_clock.h)
};

struct TestReport {
  int net = 0;
  int64_t iteration = 0;
  std::vector<OutputValue> outputs{};  // means
  bool is_best = false;
};

// Told of progress on the training's own thread; tools draw bars with it.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  // A long phase begins: "building the train net".
  virtual void OnPhase(std::string_view) {}
  virtual void OnIteration(const TrainProgress&) {}
  virtual void OnTestBatch(int /*net*/, int64_t /*done*/, int64_t /*all*/) {}
  virtual void OnTest(const TestReport&) {}
  virtual void OnCheckpoint(const std::filesystem::path&, bool /*is_best*/) {}
};

struct TrainerOptions {
  std::filesystem::path base_folder;  // relative paths of data layers start here
  std::vector<std::string> weights;   // files (or comma lists) of first weights; after the solver's own
  std::filesystem::path from;         // behind those; its layers of other numbers of outputs start fresh
  RunFolder* run = nullptr;           // null: nothing is written but Caffe snapshots
  TrainObserver* observer = nullptr;
  std::optional<Checkpoint> resume;      // continue from here
  std::filesystem::path caffe_snapshot;  // a .solverstate to continue from
  std::optional<double> max_time_s;      // over the solver's max_time
  bool take_signals = true;              // SignalRequests is asked after each iteration and while nets are built
  int64_t stop_after = -1;               // checkpoint and stop as if interrupted at this iteration
  int64_t data_threads = 0;              // decoding threads a pipeline; 0: chosen
  // Ranks that train together, all of them with the same solver, nets and options; only the first has a `run`. Null:
  // there is one. It must outlive the trainer.
  Communicator* world = nullptr;
  std::optional<ScalingBaseline> baseline;                     // that the scaling report compares with
  RunClock::Clock::time_point begun = RunClock::Clock::now();  // where the start-up began: init_s counts from here
  CompileOptions compile;                                      // name and inference are set by the trainer
  bool looks_only = false;                                     // nets are built to be looked at: nothing will run
};

enum class TrainEnd { kFinished, kTargetReached, kStoppedEarly, kTargetMissed, kInterrupted, kTimeUp };
// "finished", "target reached", ...
std::string_view Describe(TrainEnd end);

struct TrainResult {
  TrainEnd end = TrainEnd::kFinished;
  int64_t iteration = 0;
  double loss = 0;
  std::optional<double> best{};  // of the ranking metric
  int64_t best_iteration = -1;
  std::string best_metric{};
  std::filesystem::path checkpoint{};  // last written; empty if none
  // The exit code (core/error.h): 0, 21 (target missed) or 75 (interrupted, time is up).
  int exit_code() const;
};

// "90s", "30m", "1.5h", "2d", "01:50:00" or "50:00" as seconds. Errors: kUsage saying what is accepted.
double ParseDuration(std::string_view text);

// On resume: everything that changed since the checkpoint must be allowed to (max_iter, display, test_*, snapshot*,
// max_time, keep_*, threads, recompute, noise_scale_*, devices); beside mlperf test_interval, max_iter and max_epochs
// stay. Errors: kUsage listing each field with its old and new value.
void CheckResume(const Checkpoint& checkpoint, const SolverParameter& solver, const NetParameter& net);

}  // namespace moka
