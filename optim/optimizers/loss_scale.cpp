// The scale and the count of good steps are states that the graph assigns; the guarded loss keeps all other states as
// they are where a gradient was not finite.
#include "optim/optimizers/loss_scale.h"

#include <string>
#include <vector>

#include "optim/optimizers/gradient_sums.h"

namespace moka {
namespace {

constexpr double kMostScale = 16777216;  // 2^24

const TensorType kScalar{DType::kFloat32, Shape{}, {}};

GraphBuilder BuilderOf(Graph& graph) { return {graph, NodeOrigin{"(loss scale)", {}, "update"}}; }

}  // namespace

LossScale::LossScale(Graph& graph, const LossScaling& scaling) : graph_(graph), scaling_(scaling) {
  const GraphBuilder b = BuilderOf(graph);
  if (scaling.is_dynamic) {
    seed_ = graph.AddState(std::string(kLossScaleState), kScalar);
    good_ = graph.AddState(std::string(kGoodStepsState), kScalar);
    unscale_ = b.Pointwise(1 / Term::Input(0), {seed_});
  } else if (scaling.scale != 1) {
    seed_ = b.Full(Shape{}, scaling.scale);
    unscale_ = b.Full(Shape{}, 1 / scaling.scale);
  }
}

ValueId LossScale::Guard(ValueId loss, std::span<const ValueId> gradients) {
  if (seed_ == kNoId) return loss;
  const GraphBuilder b = BuilderOf(graph_);
  loss_ = loss;
  overflows_ = SumOverGradients(b, gradients, Select(IsFinite(Term::Input(0)), 0, 1));
  if (overflows_ == kNoId) overflows_ = b.Full(Shape{}, 0);
  return b.Pointwise(Term::Input(0) + Sqrt(Select(Term::Input(1) > 0, -1, 0)), {loss, overflows_});
}

void LossScale::Finish() {
  if (seed_ == kNoId) return;
  if (!scaling_.is_dynamic) {
    const Term found = Select(Term::Input(1) > 0, Term::Input(2), 0);
    const ValueId skipped =
        BuilderOf(graph_).Pointwise(Select(IsFinite(Term::Input(0)), found, 0), {loss_, overflows_, seed_});
    graph_.AddOutput(std::string(kSkippedOutput), skipped);
    return;
  }
  const Term scale = Term::Input(0);
  const Term good_steps = Term::Input(1);
  const Term is_due = good_steps + 1 >= static_cast<double>(scaling_.window);
  // After a step whose gradients are finite, after another one, and after one whose loss is not finite.
  const auto next = [](const Term& good, const Term& overflowed, const Term& old) {
    return Select(IsFinite(Term::Input(2)), Select(Term::Input(3) > 0, overflowed, good), old);
  };
  const std::vector<ValueId> values =
      BuilderOf(graph_).Pointwise({next(Select(is_due, Min(scale * 2, kMostScale), scale), Max(scale * 0.5, 1), scale),
                                   next(Select(is_due, 0, good_steps + 1), 0, good_steps), next(0, scale, 0)},
                                  {seed_, good_, loss_, overflows_});
  graph_.Assign(seed_, values[0]);
  graph_.Assign(good_, values[1]);
  graph_.AddOutput(std::string(kLossScaleState), values[0]);
  graph_.AddOutput(std::string(kSkippedOutput), values[2]);
}

void AddLossScaleStates(const LossScaling& scaling, ParameterStore& store) {
  if (!scaling.is_dynamic || store.Has(kLossScaleState)) return;
  store.Add(std::string(kLossScaleState), Shape{});
  store.Add(std::string(kGoodStepsState), Shape{});
  store.Set(kLossScaleState, std::vector<float>{static_cast<float>(scaling.scale)});
}

}  // namespace moka
