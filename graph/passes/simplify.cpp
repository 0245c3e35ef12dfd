// Simplify. Requires: a verified graph. Ensures: the same outputs and assignments; no node without effect, no two nodes
// that compute the same, no node that only passes its input on.
#include <map>

#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace moka {
namespace {

// The value a node merely repeats, or kNoId.
ValueId Repeats(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return kNoId;
  const ValueId x = node.inputs[0];
  const TensorType& from = graph.type(x);
  const TensorType& to = graph.type(node.outputs[0]);
  const bool keeps = from.shape == to.shape && from.dtype == to.dtype;
  return keeps && node.op->repeats != nullptr && node.op->repeats(node.attributes) ? x : kNoId;
}

bool RemoveRepeats(Graph& graph, const PassContext& context) {
  bool changed = false;
  const std::vector<bool> pinned = Pinned(graph);
  Rewriter rewriter(graph);
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    const ValueId x = Repeats(graph, node);
    if (x == kNoId) continue;
    // An output or a new state keeps a node of its own where it would otherwise be an input or a state itself.
    if (pinned[static_cast<size_t>(node.outputs[0])] && graph.value(x).producer == kNoId) continue;
    rewriter.ReplaceUses(node.outputs[0], x);
    rewriter.RemoveNode(id);
    changed = true;
  }
  context.Count(rewriter.visits());
  return changed;
}

// reshape(reshape(x)) reads x.
bool JoinReshapes(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    if (node.op->name != "reshape") continue;
    const NodeId producer = graph.value(node.inputs[0]).producer;
    if (producer == kNoId || graph.node(producer).op->name != "reshape") continue;
    graph.SetInput(id, 0, graph.node(producer).inputs[0]);
    changed = true;
  }
  return changed;
}

bool MergeDuplicates(Graph& graph, const PassContext& context) {
  bool changed = false;
  Rewriter rewriter(graph);
  std::map<std::pair<std::string, std::vector<ValueId>>, NodeId> seen;
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    if (!node.op->is_pure) continue;
    const auto [it, inserted] = seen.try_emplace({node.op->name + node.attributes.ToString(), node.inputs}, id);
    if (inserted) continue;
    const std::vector<ValueId> first = graph.node(it->second).outputs;
    const std::vector<ValueId> second = node.outputs;
    for (size_t i = 0; i < first.size(); ++i) rewriter.ReplaceUses(second[i], first[i]);
    rewriter.RemoveNode(id);
    changed = true;
  }
  context.Count(rewriter.visits());
  return changed;
}

}  // namespace

bool RemoveDeadNodes(Graph& graph) {
  bool changed = false;
  std::vector<bool> needed = Pinned(graph);
  const std::vector<NodeId> order = graph.TopologicalOrder();
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph.node(order[i]);
    bool any = false;
    for (const ValueId output : node.outputs) any = any || needed[static_cast<size_t>(output)];
    if (any) {
      for (const ValueId input : node.inputs) needed[static_cast<size_t>(input)] = true;
    } else {
      graph.RemoveNode(order[i]);
      changed = true;
    }
  }
  return changed;
}

bool Simplify(Graph& graph, const PassContext& context) {
  bool changed = false;
  for (bool again = true; again;) {
    again = RemoveDeadNodes(graph);
    again = RemoveRepeats(graph, context) || again;
    again = JoinReshapes(graph) || again;
    again = MergeDuplicates(graph, context) || again;
    changed = changed || again;
  }
  return changed;
}

}  // namespace moka
