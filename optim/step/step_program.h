// A step of training as it runs: the program of a batch with what is set before it and read behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/program.h"
#include "layers/net/net.h"
#include "optim/output_value.h"
#include "proto/moka.pb.h"

namespace moka {

// The step's key for rand(): a pure function of (seed, iteration, micro-batch) below 2^53.
int64_t RandomKey(uint64_t seed, int64_t iteration, int micro_batch);

// Elements of a program's outputs, named as the net's.
std::vector<OutputValue> ReadOutputs(const Program& program, const std::vector<BuiltNet::Output>& outputs);

// The place of a batch in the training.
struct StepMoment {
  int64_t iteration = 0;
  int64_t updates = 0;  // of this net before this one; another number than the iterations in turns of several steps
  int micro_batch = 0;
  int plateau_step = 0;
};

// The inputs that a step reads beside its data: the key of its draws, and the scalars of its update, which change from
// iteration to iteration (optim/optimizers/update.h). Allocates nothing when they are set.
class StepInputs {
 public:
  StepInputs() = default;
  // `updating` is the program that updates, `batch` itself or another; `scalars` are Updates::inputs. The solver must
  // outlive it. Ranks draw differently.
  StepInputs(const SolverParameter& solver, uint64_t seed, int rank, const Program& batch, const Program& updating,
             const std::vector<std::string>& scalars);

  void Set(const StepMoment& moment) const;

 private:
  struct Scalar {
    std::string name;
    Tensor tensor;
  };
  const SolverParameter* solver_ = nullptr;
  uint64_t seed_ = 0;
  int rank_ = 0;
  std::vector<Scalar> scalars_;
  Tensor random_key_;  // no data where the net draws nothing
};

// The scale of a loss that is scaled, after a step: that of the next one if it is found while training, and the one at
// which a gradient was not finite (no state was changed then), 0 if all were.
struct StepScale {
  std::optional<double> next = {};
  double overflowed_at = 0;
};

struct StepProgram {
  std::unique_ptr<Program> batch;   // forward and backward, and the update unless `update` is there
  std::unique_ptr<Program> update;  // iter_size > 1 only
  StepInputs inputs;
  std::vector<DataLayer> data;
  int64_t steps = 0;  // of sentences, in a program of shorter ones (optim/step/bucket_programs.h)

  // The losses that a step gives: the batch's; the mean over ranks, no data unless `update` gives it.
  Tensor loss;
  Tensor loss_of_all;

  Program& updating() const { return update ? *update : *batch; }
  // Finds all that is read. Requires: the programs are there.
  void BindOutputs();
  // The scale after the last step, as the program that updates gives it.
  StepScale scale() const;

 private:
  Tensor loss_scale_;  // no data unless the scale is dynamic
  Tensor skipped_;     // no data unless the loss is scaled
};

}  // namespace moka
