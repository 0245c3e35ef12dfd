// Recompute. What a batch norm gives is made once more just before the backward pass reads it, from its input, which
// the norm's own gradient keeps anyway: the result lives through the forward pass only. Costs one more sweep over it.
// Asked for by CompileOptions::recompute. Requires: a differentiated graph. Ensures: the same outputs bit for bit; a
// result read before and after the loss is kept no longer.
#include <algorithm>

#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace moka {
namespace {

bool IsBackward(const Node& node) { return node.origin.pass == "autodiff"; }

// Whether the gradient of the norm keeps x, and does without y.
bool KeepsInput(const Graph& graph, Rewriter& rewriter, ValueId x, ValueId y) {
  const std::vector<NodeId> readers = rewriter.Readers(x);
  return std::ranges::any_of(readers, [&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.op->name != "batch_norm_backward" || node.inputs[0] != x) return false;
    return std::ranges::find(node.inputs, y) == node.inputs.end();
  });
}

bool RecomputeNorm(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node norm = graph.node(id);
  if (norm.op->name != "batch_norm" || norm.attributes.Bool("sum") || IsBackward(norm)) return false;
  const ValueId x = norm.inputs[0];
  const ValueId y = norm.outputs[0];
  if (rewriter.IsPinned(y)) return false;
  const std::vector<NodeId> readers = rewriter.Readers(y);
  std::vector<NodeId> late;
  std::ranges::copy_if(readers, std::back_inserter(late), [&](NodeId r) { return IsBackward(graph.node(r)); });
  if (late.empty() || late.size() == readers.size() || !KeepsInput(graph, rewriter, x, y)) return false;
  NodeOrigin origin = norm.origin;
  origin.pass = "recompute";
  origin.sequence = graph.node(late.front()).origin.sequence;
  for (const NodeId reader : late) origin.sequence = std::min(origin.sequence, graph.node(reader).origin.sequence);
  std::vector<ValueId> inputs = {x, norm.outputs[1], norm.outputs[2]};
  inputs.insert(inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
  const Attributes attributes = {{"eps", norm.attributes.Float("eps")}, {"relu", norm.attributes.Bool("relu")}};
  const ValueId again = GraphBuilder(graph, origin).Add1("batch_norm_apply", inputs, attributes);
  for (const NodeId reader : late) {
    for (size_t i = 0; i < graph.node(reader).inputs.size(); ++i) {
      if (graph.node(reader).inputs[i] == y) graph.SetInput(reader, static_cast<int>(i), again);
    }
  }
  return true;
}

}  // namespace

bool Recompute(Graph& graph, const PassContext& context) {
  if (!context.options.recompute) return false;
  Rewriter rewriter(graph);
  bool changed = false;
  for (const NodeId id : graph.TopologicalOrder()) changed = RecomputeNorm(graph, rewriter, id) || changed;
  context.Count(rewriter.visits());
  return changed;
}

}  // namespace moka
