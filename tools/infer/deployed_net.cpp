// An output counts where the filled inputs alone determine it; another would stay at zero.
#include "tools/infer/deployed_net.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/slow_phase.h"
#include "layers/net/layer.h"
#include "tools/infer/infer_program.h"
#include "tools/infer/input_shape.h"

namespace moka {
namespace {

std::vector<std::string> InputsOf(const NetParameter& deploy, DeployedNet::Fills fills) {
  if (fills == DeployedNet::Fills::kFirst) return {ImageInput(deploy).top(0)};
  std::vector<std::string> inputs;
  for (const LayerParameter& layer : deploy.layer()) {
    if (TraitsOf(layer).data != DataKind::kInput) continue;
    inputs.insert(inputs.end(), layer.top().begin(), layer.top().end());
  }
  return inputs;
}

}  // namespace

DeployedNet::DeployedNet(const InferSource& source, int64_t batch, Fills fills, const std::string& blob,
                         SharedWeights weights)
    : batch_(batch), weights_(std::move(weights)) {
  const SlowPhase phase("building the net");
  if (!weights_) weights_ = std::make_shared<ParameterStore>(source.compile.device);
  const NetParameter net = InferNet(source);
  deploy_ = DeployNet(net, InputShapeOf(source, net, batch_));
  std::vector<std::string> kept;
  if (!blob.empty()) kept = {blob};
  if (blob.empty()) scores_ = DeployedScoresOf(net);
  if (scores_) kept = {scores_->top};  // though a layer behind them reads them
  InferProgram made = CompileForInference(source, deploy_, kept, *weights_);
  program_ = std::move(made.program);
  kept_ = std::move(made.kept);
  inputs_ = InputsOf(deploy_, fills);
  const auto is_filled = [&](const std::string& output) { return IsFilled(*program_, deploy_, inputs_, output); };
  std::vector<std::string> wanted = blob.empty() ? made.outputs : std::vector{blob};
  if (scores_ && !is_filled(scores_->top)) scores_.reset();  // scores that another input reaches answer nothing
  if (scores_ && std::ranges::none_of(wanted, is_filled)) wanted.push_back(scores_->top);
  outputs_ = FilledOutputs(*program_, deploy_, inputs_, wanted);
  std::erase_if(inputs_, [&](const std::string& input) { return !program_->HasInput(input); });
  if (inputs_.empty()) {
    throw Error(ErrorKind::kConfig, StrCat("input \"", ImageInput(deploy_).top(0), "\" does not reach the output"));
  }
}

const LayerParameter& DeployedNet::WriterOf(const std::string& output) const {
  const auto writes = [&](const LayerParameter& layer) {
    return std::ranges::find(layer.top(), output) != layer.top().end();
  };
  const auto last = std::find_if(deploy_.layer().rbegin(), deploy_.layer().rend(), writes);
  Require(last != deploy_.layer().rend(), "DeployedNet::WriterOf: an output of the net");
  return *last;
}

std::vector<float> DeployedNet::State() const {
  std::vector<float> state;
  for (const std::string& name : kept_) {
    const std::vector<float> values = weights_->Values(name);
    state.insert(state.end(), values.begin(), values.end());
  }
  return state;
}

void DeployedNet::SetState(std::span<const float> state) {
  size_t at = 0;
  for (const std::string& name : kept_) {
    const auto count = static_cast<size_t>(weights_->type(name).shape.Count());
    weights_->Set(name, state.empty() ? std::vector<float>(count)
                                      : std::vector(state.begin() + static_cast<ptrdiff_t>(at),
                                                    state.begin() + static_cast<ptrdiff_t>(at + count)));
    at += count;
  }
  Require(state.empty() || at == state.size(), "DeployedNet::SetState: a state of this net");
}

void DeployedNet::Run(int64_t used) {
  program_->Run();
  std::vector<std::string> checked = outputs_;
  if (std::ranges::find(outputs_, answer()) == outputs_.end()) checked.push_back(answer());
  for (const std::string& name : checked) {
    const Tensor output = program_->output(name);
    const Shape& shape = output.shape();
    const bool is_of_pictures = shape.rank() > 0 && shape[0] == batch_;
    // The output of a slot without a picture says nothing.
    if (output.type().dtype != DType::kFloat32 || (!is_of_pictures && used < batch_)) continue;
    const int64_t count = is_of_pictures ? used * shape.Count(1, shape.rank()) : shape.Count();
    const bool is_finite = CheckScores(output.as<const float>().first(static_cast<size_t>(count)), name);
    if (is_finite || std::exchange(told_infinite_, true)) continue;
    LogWarning(StrCat("output \"", name, "\" holds infinite values"));
  }
}

}  // namespace moka
