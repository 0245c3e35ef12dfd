// Channel statistics: on a GPU, a convolution that a batch norm of this batch's statistics reads sums what it writes:
// it becomes a convolution_statistics and the batch norm a batch_norm_apply, which does not read y once more for its
// sums. Requires: final layouts. Ensures: the same outputs, statistics as near as sums in float are; the row that takes
// the convolution takes it with the statistics too; otherwise the pair is as it was.
#include "graph/binding.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace moka {
namespace {

// Returns the values that `from` has for the attributes of `op`.
Attributes Shared(const OpDef& op, const Attributes& from) {
  Attributes shared;
  for (const AttributeSpec& spec : op.attributes) shared.Set(spec.name, from.values().at(spec.name));
  return shared;
}

class Joiner {
 public:
  Joiner(Graph& graph, const PassContext& context) : graph_(graph), context_(context), rewriter_(graph) {}

  bool Run() {
    bool changed = false;
    for (const NodeId id : graph_.TopologicalOrder()) {
      context_.Count(1);
      changed = (graph_.node(id).op->name == "batch_norm" && Join(id)) || changed;
    }
    return changed;
  }

 private:
  bool Join(NodeId norm_id) {
    const NodeId convolution_id = graph_.value(graph_.node(norm_id).inputs[0]).producer;
    if (convolution_id == kNoId) return false;
    const Node convolution = graph_.node(convolution_id);
    const bool is_bare = convolution.op->name == "convolution" && convolution.inputs.size() == 2 &&
                         convolution.attributes.String("activation").empty();
    if (!is_bare) return false;
    const Node norm = graph_.node(norm_id);
    const std::vector<ValueId> summed =
        AddTwin(convolution, "convolution_statistics", convolution.inputs,
                {graph_.type(convolution.outputs[0]), graph_.type(norm.outputs[1]), graph_.type(norm.outputs[2])});
    std::vector<ValueId> inputs = summed;
    inputs.insert(inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
    const std::vector<ValueId> applied = AddTwin(norm, "batch_norm_apply", inputs, {graph_.type(norm.outputs[0])});
    const NodeId sums = graph_.value(summed[0]).producer;
    const NodeId applies = graph_.value(applied[0]).producer;
    if (!HasRowOf(sums, convolution_id) || !HasRowOf(applies, norm_id)) {
      rewriter_.RemoveNode(applies);
      rewriter_.RemoveNode(sums);
      return false;
    }
    rewriter_.ReplaceUses(norm.outputs[0], applied[0]);
    rewriter_.ReplaceUses(norm.outputs[1], summed[1]);
    rewriter_.ReplaceUses(norm.outputs[2], summed[2]);
    rewriter_.RemoveNode(norm_id);
    rewriter_.ReplaceUses(convolution.outputs[0], summed[0]);
    rewriter_.RemoveNode(convolution_id);
    return true;
  }

  // A node of another op in a node's place, with outputs of these types.
  std::vector<ValueId> AddTwin(const Node& node, const char* op, const std::vector<ValueId>& inputs,
                               const std::vector<TensorType>& types) {
    std::vector<ValueId> outputs =
        GraphBuilder(graph_, node.origin).Add(op, inputs, Shared(graph_.catalog().Op(op), node.attributes));
    for (size_t i = 0; i < outputs.size(); ++i) graph_.SetType(outputs[i], types[i]);
    graph_.SetName(outputs[0], graph_.value(node.outputs[0]).name);
    return outputs;
  }

  // Whether the row that is first to take a node has the name of the one that takes another: where a library computes
  // the one, no plain loop is to compute the other.
  bool HasRowOf(NodeId id, NodeId other) const {
    const KernelDef* row = FirstRow(graph_, id, context_.options);
    const KernelDef* other_row = FirstRow(graph_, other, context_.options);
    return row != nullptr && other_row != nullptr && row->name == other_row->name;
  }

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
};

}  // namespace

bool SumChannelStatistics(Graph& graph, const PassContext& context) {
  if (context.options.device.is_cpu()) return false;
  return Joiner(graph, context).Run();
}

}  // namespace moka
