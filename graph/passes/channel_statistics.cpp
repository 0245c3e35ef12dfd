// Channel statistics: on a GPU, a convolution that a batch norm of this batch's statistics reads sums what it writes:
// it becomes a convolution_statistics and the batch norm a batch_norm_apply, which does not read y once more for its
// sums. Requires: final layouts. Ensures: the same outputs, statistics as near as sums in float are; the row that takes
// the convolution takes it with the statistics too; otherwise the pair is as it was.
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/twins.h"

namespace moka {
namespace {

class Joiner {
 public:
  Joiner(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), twins_(graph, context), rewriter_(graph) {}

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
        twins_.Add(convolution, "convolution_statistics", convolution.inputs, {},
                   {graph_.type(convolution.outputs[0]), graph_.type(norm.outputs[1]), graph_.type(norm.outputs[2])},
                   convolution.outputs[0]);
    std::vector<ValueId> inputs = summed;
    inputs.insert(inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
    const std::vector<ValueId> applied =
        twins_.Add(norm, "batch_norm_apply", inputs, {}, {graph_.type(norm.outputs[0])}, norm.outputs[0]);
    const Twins::Pair pair{graph_.value(summed[0]).producer, convolution_id, graph_.value(applied[0]).producer,
                           norm_id};
    if (!twins_.Keeps(pair, rewriter_)) return false;
    rewriter_.ReplaceUses(norm.outputs[0], applied[0]);
    rewriter_.ReplaceUses(norm.outputs[1], summed[1]);
    rewriter_.ReplaceUses(norm.outputs[2], summed[2]);
    rewriter_.RemoveNode(norm_id);
    rewriter_.ReplaceUses(convolution.outputs[0], summed[0]);
    rewriter_.RemoveNode(convolution_id);
    return true;
  }

  Graph& graph_;
  const PassContext& context_;
  Twins twins_;
  Rewriter rewriter_;
};

}  // namespace

bool SumChannelStatistics(Graph& graph, const PassContext& context) {
  if (context.options.device.is_cpu()) return false;
  return Joiner(graph, context).Run();
}

}  // namespace moka
