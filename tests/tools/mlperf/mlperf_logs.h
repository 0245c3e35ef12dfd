// Logs of whole trainings that nobody ran: the trainer's writer under a clock of the test's own.
#pragma once

#include <functional>
#include <string>

#include "optim/run/mlperf_fields.h"
#include "optim/run/mlperf_run.h"
#include "proto/moka.pb.h"

namespace moka {

// A training of `solver` over data of these sizes, whose tests give `accuracy` of the epochs done; it ends as the
// trainer does, with a test that reaches target_value or with max_iter.
std::string DrawnMlperfLog(const SolverParameter& solver, const MlperfFacts& facts,
                           const std::function<double(double epochs)>& accuracy);

// The solver with all that its `mlperf` must say.
SolverParameter WithMlperf(SolverParameter solver, const std::string& benchmark, const std::string& division);

// ImageNet's and COCO's sizes at a batch.
MlperfFacts ImageNetFacts(int64_t batch);
MlperfFacts CocoFacts(int64_t batch);

// models/resnet50/solver_NAME.prototxt, to MLPerf's quality.
SolverParameter ResNetRecipe(const std::string& name);
// The reference's Adam at batch 256, without what a net needs.
SolverParameter SsdRecipe();

}  // namespace moka
