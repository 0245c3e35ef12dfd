// The squared norms that the gradient noise scale is made of (optim/gradient_noise.h), of every noise_scale_interval-th
// update; the others pay for none.
//
//   several ranks   The parts are the ranks. Each takes the norm of its own gradients where they are made, before the
//                   exchange sums them in place, and of the sums once they are there: nodes of the program that
//                   exchanges gradients, which an input switches on. The first is summed over the ranks with the loss.
//   one rank        The parts are iter_size's batches. A small program takes the norm of the "@sum" states behind the
//                   first batch, whose gradient is there by itself then only, and behind the last.
//
// The gradients are those of the loss: before the unscaling, clipping and decay of the update, and the loss scale is
// divided out of the norms. Nothing that the update reads is written, so the weights are the same bits without it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "graph/program.h"
#include "optim/gradient_noise.h"
#include "optim/optimizers/loss_scale.h"
#include "optim/step/step_program.h"
#include "optim/step/training_graph.h"
#include "proto/moka.pb.h"

namespace moka {

// An input: 1 in updates that are measured, else 0.
inline constexpr std::string_view kMeasuresInput = "@measures_norms";
// Outputs: the sum over the ranks of the squared norms of each one's gradients, and the squared norm of the gradients'
// sum over the ranks.
inline constexpr std::string_view kOwnSquaresOutput = "@own_squares";
inline constexpr std::string_view kSumSquaresOutput = "@sum_squares";

inline bool MeasuresNorms(const SolverParameter& solver) { return solver.noise_scale_interval() > 0; }

// Nothing where norms are not measured. `ranks` share the data. Errors: kConfig at noise_scale_interval where an update
// has no parts, kUnavailable for what norms are not measured with yet.
void CheckNoiseScale(const SolverParameter& solver, int64_t ranks, bool is_pipeline);

// A scalar: the sum of the squares of all elements of the gradients (kNoId: there is none); 0 where the scalar `is_on`
// is 0. Each is read right behind its producer where `is_apart`, else several at once.
ValueId SquaresOf(Graph& graph, std::span<const ValueId> gradients, ValueId is_on, bool is_apart);

class NormReadout {
 public:
  // Measures nothing.
  NormReadout() = default;
  // Requires: the step passed CheckNoiseScale. Its solver, `made` and the store must outlive it. `options`: of the
  // small program.
  NormReadout(const TrainingGraph& step, const StepProgram& made, ParameterStore& store, const CompileOptions& options);

  // Before the first batch of an update.
  void Begin(int64_t iteration);
  // Behind each of its batches, of which `done` have run.
  void TakeBatch(int done);
  // Behind the update. `batch`: samples of a rank's batch; `loss` is the update's.
  void Finish(int64_t batch, double loss);
  // The norms of the last update; none where it was not measured, left in the middle, or something was not finite.
  const std::optional<GradientNorms>& norms() const { return norms_; }

 private:
  GradientNorms OfRanks() const;
  GradientNorms OfBatches() const;

  const SolverParameter* solver_ = nullptr;
  ParameterStore* store_ = nullptr;
  LossScaling scaling_ = {};
  int64_t ranks_ = 1;
  Tensor measures_;  // with several ranks, as the next two
  Tensor own_;
  Tensor sum_;
  std::unique_ptr<Program> squares_;  // with one
  double first_ = 0;                  // of the first batch
  double last_ = 0;                   // and of all
  bool is_on_ = false;
  double loss_scale_ = 1;
  std::optional<GradientNorms> norms_;
};

}  // namespace moka
