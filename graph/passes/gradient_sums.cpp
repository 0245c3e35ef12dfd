// Gradient sums: on a GPU, the gradient of a convolution's input that goes to a batch norm's gradient adds what else
// reaches that batch norm, applies its ReLU's mask and sums what it writes: it becomes a convolution_backward_data_sums
// and the batch norm's gradient a batch_norm_backward_apply, which does not read the gradient once more for its sums.
// Requires: final layouts. Ensures: the same outputs, as near as sums in float and one rounding less are; the row that
// takes the gradient takes it with the sums too; otherwise the pair is as it was.
#include <algorithm>

#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/twins.h"

namespace moka {
namespace {

// Where batch_norm_backward's inputs stand: x, mean, variance, the gradients, then scale, shift and y.
constexpr size_t kMean = 1;
constexpr size_t kVariance = 2;
constexpr size_t kGradients = 3;

class GradientJoiner {
 public:
  GradientJoiner(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), twins_(graph, context), rewriter_(graph) {}

  bool Run() {
    bool changed = false;
    for (const NodeId id : graph_.TopologicalOrder()) {
      context_.Count(1);
      if (graph_.node(id).op->name == "batch_norm_backward") changed = JoinOne(id) || changed;
    }
    return changed;
  }

 private:
  // The later one of two gradients that convolutions write takes the other as its summand where a row can.
  bool JoinOne(NodeId norm_id) {
    const Node& norm = graph_.node(norm_id);
    const auto gradients = static_cast<size_t>(norm.attributes.Int("gradients"));
    if (gradients > 2 || !norm.attributes.Get<Ints>("stride").empty()) return false;
    std::vector<NodeId> candidates;
    for (size_t i = 0; i < gradients; ++i) {
      const ValueId dx = norm.inputs[kGradients + i];
      const NodeId producer = graph_.value(dx).producer;
      if (producer == kNoId || graph_.node(producer).op->name != "convolution_backward_data") continue;
      if (rewriter_.OnlyUser(dx) == norm_id) candidates.push_back(producer);
    }
    const auto place = [&](NodeId id) { return std::pair(graph_.node(id).origin.sequence, id); };
    std::ranges::sort(candidates, [&](NodeId a, NodeId b) { return place(a) > place(b); });
    return std::ranges::any_of(candidates, [&](NodeId gradient) { return Join(gradient, norm_id); });
  }

  bool Join(NodeId gradient_id, NodeId norm_id) {
    const Node& gradient = graph_.node(gradient_id);
    const Node& norm = graph_.node(norm_id);
    const ValueId dx = gradient.outputs[0];
    const auto first = norm.inputs.begin() + kGradients;
    const ValueId summand = norm.attributes.Int("gradients") == 1 ? kNoId : first[0] == dx ? first[1] : first[0];
    const std::string& mask = norm.attributes.String("mask");
    ValueId y = kNoId;
    if (mask == "output") y = norm.inputs.back();
    if (mask == "input") y = ResultOf(norm, gradient);
    if (!mask.empty() && y == kNoId) return false;
    std::vector<ValueId> inputs = {gradient.inputs[0], gradient.inputs[1], norm.inputs[0]};
    if (summand != kNoId) inputs.push_back(summand);
    if (y != kNoId) inputs.push_back(y);
    const TensorType& type = graph_.type(dx);
    const bool is_of_one_type = std::all_of(inputs.begin() + 2, inputs.end(), [&](ValueId value) {
      return graph_.type(value).dtype == type.dtype && graph_.type(value).layout == type.layout;
    });
    if (!is_of_one_type) return false;
    return Replace(gradient_id, norm_id, inputs, {{"sum", summand != kNoId}, {"mask", y != kNoId}});
  }

  // The forward pass's y of a batch norm whose gradient tells the mask from x: what the gradient of the convolution's
  // weights reads, as it is there by then. kNoId if that is not y.
  ValueId ResultOf(const Node& norm, const Node& gradient) {
    for (const NodeId reader : rewriter_.Readers(gradient.inputs[0])) {
      const Node& weights = graph_.node(reader);
      if (weights.op->name != "convolution_backward_weights" || weights.inputs[1] != gradient.inputs[0]) continue;
      const ValueId y = weights.inputs[0];
      if (IsResultOf(y, norm)) return y;
    }
    return kNoId;
  }

  bool IsResultOf(ValueId y, const Node& norm) const {
    const NodeId producer = graph_.value(y).producer;
    if (producer == kNoId) return false;
    const Node& forward = graph_.node(producer);
    const bool takes = forward.op->name == "batch_norm";
    if (!takes && forward.op->name != "batch_norm_apply") return false;
    if (!forward.attributes.Bool("relu") || forward.attributes.Bool("sum")) return false;
    const ValueId mean = takes ? forward.outputs[1] : forward.inputs[1];
    return forward.inputs[0] == norm.inputs[0] && mean == norm.inputs[kMean];
  }

  bool Replace(NodeId gradient_id, NodeId norm_id, const std::vector<ValueId>& inputs, const Attributes& attributes) {
    const Node gradient = graph_.node(gradient_id);
    const Node norm = graph_.node(norm_id);
    const TensorType mean = graph_.type(norm.inputs[kMean]);
    const ValueId dx = gradient.outputs[0];
    const std::vector<ValueId> summed =
        twins_.Add(gradient, "convolution_backward_data_sums", inputs, attributes, {graph_.type(dx), mean, mean}, dx);
    std::vector<ValueId> applied_inputs = {norm.inputs[0], norm.inputs[kMean], norm.inputs[kVariance]};
    applied_inputs.insert(applied_inputs.end(), summed.begin(), summed.end());
    const bool is_affine = norm.attributes.Bool("affine");
    const auto gradients = static_cast<size_t>(norm.attributes.Int("gradients"));
    if (is_affine) applied_inputs.push_back(norm.inputs[kGradients + gradients]);
    std::vector<TensorType> types;
    for (size_t i = 0; i < (is_affine ? 3U : 1U); ++i) types.push_back(graph_.type(norm.outputs[i]));
    const std::vector<ValueId> applied =
        twins_.Add(norm, "batch_norm_backward_apply", applied_inputs, {}, types, norm.outputs[0]);
    const Twins::Pair pair{graph_.value(summed[0]).producer, gradient_id, graph_.value(applied[0]).producer, norm_id};
    if (!twins_.Keeps(pair, rewriter_)) return false;
    for (size_t i = 0; i < applied.size(); ++i) rewriter_.ReplaceUses(norm.outputs[i], applied[i]);
    // The masked gradient is the residual's, too.
    if (norm.attributes.Bool("residual")) rewriter_.ReplaceUses(norm.outputs.back(), summed[0]);
    rewriter_.RemoveNode(norm_id);
    rewriter_.RemoveNode(gradient_id);
    return true;
  }

  Graph& graph_;
  const PassContext& context_;
  Twins twins_;
  Rewriter rewriter_;
};

}  // namespace

bool SumGradients(Graph& graph, const PassContext& context) {
  if (context.options.device.is_cpu()) return false;
  return GradientJoiner(graph, context).Run();
}

}  // namespace moka
