// The key of a step's draws by Philox, its scalars by the solver's rules, and its outputs by their names.
#include "optim/step/step_program.h"

#include "core/rng.h"
#include "optim/optimizers/loss_scale.h"
#include "optim/optimizers/update.h"
#include "optim/step/training_graph.h"

namespace moka {

int64_t RandomKey(uint64_t seed, int64_t iteration, int micro_batch) {
  const auto iter = static_cast<uint64_t>(iteration);
  constexpr uint32_t kDomain = 0x4B455953;  // apart from other uses of Philox with this seed
  const auto words = Philox(
      {static_cast<uint32_t>(iter), static_cast<uint32_t>(iter >> 32U), static_cast<uint32_t>(micro_batch), kDomain},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32U)});
  constexpr uint64_t kBelow = (uint64_t{1} << 53U) - 1;  // exact in a double
  return static_cast<int64_t>((uint64_t{words[0]} << 32U | words[1]) & kBelow);
}

std::vector<OutputValue> ReadOutputs(const Program& program, const std::vector<BuiltNet::Output>& outputs) {
  std::vector<OutputValue> values;
  for (const BuiltNet::Output& output : outputs) {
    const Tensor tensor = program.output(output.name);
    for (const float v : tensor.as<float>()) values.push_back({output.name, v, output.loss_weight, {}});
  }
  return values;
}

StepInputs::StepInputs(const SolverParameter& solver, uint64_t seed, int rank, const Program& batch,
                       const Program& updating, const std::vector<std::string>& scalars)
    : solver_(&solver), seed_(seed), rank_(rank) {
  for (const std::string& name : scalars) scalars_.push_back({name, updating.input(name)});
  if (batch.HasInput("random_key")) random_key_ = batch.input("random_key");
}

void StepInputs::Set(const StepMoment& moment) const {
  if (random_key_.raw() != nullptr) {
    random_key_.as<int64_t>()[0] = RandomKey(seed_, moment.updates, moment.micro_batch + solver_->iter_size() * rank_);
  }
  if (moment.micro_batch != 0) return;
  for (const Scalar& scalar : scalars_) {
    const int64_t at = CountsUpdates(scalar.name) ? moment.updates : moment.iteration;
    scalar.tensor.as<float>()[0] = static_cast<float>(UpdateInput(*solver_, scalar.name, at, moment.plateau_step));
  }
}

void StepProgram::BindOutputs() {
  const auto bind = [&](std::string_view name, Tensor& tensor) {
    if (HasOutput(updating(), name)) tensor = updating().output(name);
  };
  loss = batch->output(kLossOutput);
  if (update) bind(kLossOutput, loss_of_all);
  bind(kSkippedOutput, skipped_);
  bind(kLossScaleState, loss_scale_);
}

StepScale StepProgram::scale() const {
  StepScale found;
  if (loss_scale_.raw() != nullptr) found.next = loss_scale_.as<const float>()[0];
  if (skipped_.raw() != nullptr) found.overflowed_at = skipped_.as<const float>()[0];
  return found;
}

}  // namespace moka
