#include "optim/loss_scale.h"

#include <string>
#include <vector>

#include "core/text.h"
#include "optim/gradient_sums.h"
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

constexpr const char* kMostScale = "16777216";  // 2^24

const TensorType kScalar{DType::kFloat32, Shape{}, {}};

GraphBuilder BuilderOf(Graph& graph) { return {graph, NodeOrigin{"(loss scale)", {}, "update"}}; }

}  // namespace

LossScale::LossScale(Graph& graph, const LossScaling& scaling) : graph_(graph), scaling_(scaling) {
  const GraphBuilder b = BuilderOf(graph);
  if (scaling.is_dynamic) {
    seed_ = graph.AddState(std::string(kLossScaleState), kScalar);
    good_ = graph.AddState(std::string(kGoodStepsState), kScalar);
    unscale_ = b.Pointwise("1/x0", {seed_});
  } else if (scaling.scale != 1) {
    seed_ = b.Full(Shape{}, scaling.scale);
    unscale_ = b.Full(Shape{}, 1 / scaling.scale);
  }
}

ValueId LossScale::Guard(ValueId loss, std::span<const ValueId> gradients) {
  if (seed_ == kNoId) return loss;
  const GraphBuilder b = BuilderOf(graph_);
  loss_ = loss;
  overflows_ = SumOverGradients(b, gradients, "select(le(abs(x0),3e38),0,1)");
  if (overflows_ == kNoId) overflows_ = b.Full(Shape{}, 0);
  return b.Pointwise("x0+sqrt(select(gt(x1,0),-1,0))", {loss, overflows_});
}

void LossScale::Finish() {
  if (seed_ == kNoId) return;
  if (!scaling_.is_dynamic) {
    const ValueId skipped =
        BuilderOf(graph_).Pointwise("select(le(abs(x0),3e38),select(gt(x1,0),x2,0),0)", {loss_, overflows_, seed_});
    graph_.AddOutput(std::string(kSkippedOutput), skipped);
    return;
  }
  const std::string is_due = StrCat("ge(x1+1,", ConstantText(static_cast<double>(scaling_.window)), ")");
  const auto next = [&](const std::string& good, const std::string& overflowed, const std::string& old) {
    return StrCat("select(le(abs(x2),3e38),select(gt(x3,0),", overflowed, ",", good, "),", old, ")");
  };
  const std::string scale = next(StrCat("select(", is_due, ",min(x0*2,", kMostScale, "),x0)"), "max(x0*0.5,1)", "x0");
  const std::string good = next(StrCat("select(", is_due, ",0,x1+1)"), "0", "x1");
  const std::string skipped = next("0", "x0", "0");
  const std::vector<ValueId> values =
      BuilderOf(graph_).Pointwise(Strings{scale, good, skipped}, {seed_, good_, loss_, overflows_});
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
