// A stage's three programs (forward, backward, update), and sums over the ranks of what only some stages compute.
#include "optim/step/train_pipeline.h"

#include <algorithm>
#include <array>
#include <span>

namespace moka {

TrainPipeline::TrainPipeline(Communicator& world, TrainingGraph& step, const CompileOptions& options,
                             ParameterStore& store, StepProgram& forward)
    : world_(world), forward_(forward), micro_batches_(step.spec.solver.iter_size()) {
  for (const BuiltNet::Output& output : step.net.outputs) {
    outputs_.push_back({output.name, output.loss_weight, step.net.graph.shape(output.value).Count(), {}});
  }
  forward.batch = Compile(std::move(step.stages->forward), store, options);
  CompileOptions other = options;
  other.name = "backward";
  backward_ = Compile(std::move(step.stages->backward), store, other);
  other.name = "update";
  forward.update = Compile(std::move(step.apart->graph), store, other);
  stage_ = std::make_unique<PipelineStage>(world, *step.stages, *forward.batch, *backward_, micro_batches_);
  if (HasOutput(*forward.batch, kLossOutput)) loss_ = forward.batch->output(kLossOutput);
  for (Output& output : outputs_) {
    if (HasOutput(*forward.batch, output.name)) output.values = forward.batch->output(output.name);
  }
}

double TrainPipeline::Step(const std::function<void(int micro_batch)>& load, Wishes& wishes) {
  std::array<double, 1 + kWishes> sums{};
  std::ranges::copy(wishes.wanted(), sums.begin() + 1);
  stage_->Run(load, [&](int) {
    if (loss_.raw() != nullptr) sums[0] += double{loss_.as<float>()[0]};
  });
  world_.Sum(sums);
  Program& update = *forward_.update;
  if (update.HasInput("guard")) update.input("guard").as<float>()[0] = static_cast<float>(sums[0]);
  update.Run();
  wishes.Count(std::span<const double>(sums).last<kWishes>());
  wishes.DropCounted();
  return sums[0] / micro_batches_;
}

std::vector<OutputValue> TrainPipeline::Outputs() const {
  std::vector<OutputValue> values;
  std::vector<double> numbers;
  for (const Output& output : outputs_) {
    for (int64_t i = 0; i < output.elements; ++i) {
      values.push_back({output.name, 0, output.loss_weight, {}});
      numbers.push_back(
          output.values.raw() == nullptr ? 0 : double{output.values.as<const float>()[static_cast<size_t>(i)]});
    }
  }
  world_.Sum(numbers);
  for (size_t i = 0; i < values.size(); ++i) values[i].value = numbers[i];
  return values;
}

}  // namespace moka
