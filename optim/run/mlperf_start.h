// A training's way into MLPerf's log: what is done before its nets are built, what is known once they are, and the log
// opened, anew or where a resumed run goes on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "optim/checkpoint/trainer_state.h"
#include "optim/run/cold_data.h"
#include "optim/run/mlperf_run.h"
#include "optim/run/run_folder.h"
#include "optim/run/trainer_options.h"
#include "optim/step/test_net.h"
#include "optim/step/train_net.h"
#include "proto/nets/solver_file.h"

namespace moka {

// Checks the solver's `mlperf` and drops the pages of the data from the system's cache, where it has one and the
// training is a new one; all ranks call it. Errors: kConfig of CheckMlperf, kUsage for a training from a .solverstate,
// kUnavailable where the data stay warm in the closed division; in the open one that is a warning of the first rank.
ColdData StartCold(const SolverParameter& solver, const SolverNets& nets, const TrainerOptions& options);

// Returns the first test net's top that is eval_accuracy; empty without `mlperf`. Errors: kConfig at mlperf.metric,
// with the nearest name, and at mlperf for train data without an end and a training that ends before its first test.
std::string AccuracyOf(const SolverParameter& solver, const std::string& best_metric, TrainNet& train,
                       const std::vector<std::unique_ptr<TestNet>>& tests);

// Returns the facts of these nets, which so many ranks train; seed and batch are the caller's. Requires: a test net.
MlperfFacts FactsOf(const SolverParameter& solver, TrainNet& train, const TestNet& test, int64_t ranks);

// A new log, RUN/mllog.txt, with all that comes before run_start. `run` outlives it. Errors: kCantCreate, kIo.
MlperfRun OpenMlperf(const RunFolder& run, const SolverParameter& solver, const MlperfRun::Course& course,
                     const ColdData& cold);
// The log of the session before, cut back to the checkpoint; where it is gone, a warning, and nothing is written.
MlperfRun ResumeMlperf(const RunFolder& run, const MlperfRun::Course& course, const TrainerState& state);

}  // namespace moka
