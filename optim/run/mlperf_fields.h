// The solver's `mlperf`: its words, and what the rules of MLPerf training ask of a solver (mlcommons/logging,
// mlperf_logging/compliance_checker: training_4.0.0 for "resnet" and "ssd", training_4.1.0 for "ssd"). The open
// division takes any hyper-parameters; in the closed one those that its rules name are checked before anything is
// built.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optim/run/cold_data.h"
#include "optim/run/mlperf_log.h"
#include "proto/moka.pb.h"

namespace moka {

// Errors: kConfig at the field, with the nearest name, for words that MLPerf does not know; at `mlperf` for a training
// without tests or of turns; in the closed division at the first field that its rules do not allow, naming the key.
void CheckMlperf(const SolverParameter& solver);

// The facts that are known once the nets are built.
struct MlperfFacts {
  uint64_t seed = 0;
  int64_t train_samples = 0;  // records of an epoch
  int64_t eval_samples = 0;   // a test looks at
  int64_t batch = 0;          // of an update, all ranks and batches together
  int64_t norm_span = 0;      // samples that a batch normalisation sees; 0: there is none

  // Updates that take all records once, the last of them some of the next epoch's.
  int64_t steps_per_epoch() const { return (train_samples + batch - 1) / batch; }
};

// Returns the lines that tell the hyper-parameters, by their keys. Requires: CheckMlperf has passed.
std::vector<MlperfField> MlperfHyperparameters(const SolverParameter& solver, const MlperfFacts& facts);

// Writes all that comes before run_start: who trains, whether the data were cold, the start-up and the
// hyper-parameters. The caches were dropped, and the start-up began, at `cold.at_ms`.
void WriteMlperfHead(const MlperfLog& log, const SolverParameter& solver, const MlperfFacts& facts,
                     const ColdData& cold);

}  // namespace moka
