// Constant weights. In inference marks the products and recurrences whose weights depend on states alone with
// constant_weights, so that a kernel may ask for them as it reads them: the layout pass then packs them once, outside
// the runs. Requires: inference. Ensures: the same nodes and results.
#include <algorithm>
#include <string_view>

#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

struct Row {
  std::string_view op;
  size_t weights;  // which input
};
constexpr Row kRows[] = {{"gru_forward", 3}, {"lstm_forward", 4}, {"matmul", 1}};

}  // namespace

bool MarkConstantWeights(Graph& graph, const PassContext& context) {
  if (!context.options.inference || !context.options.device.is_cpu()) return false;
  const std::vector<bool> constant = ConstantNodes(graph, true);
  const std::vector<bool> written = WrittenStates(graph);
  const auto is_constant = [&](ValueId id) {
    const Value& value = graph.value(id);
    if (value.producer != kNoId) return static_cast<bool>(constant[static_cast<size_t>(value.producer)]);
    return value.kind == ValueKind::kState && !written[static_cast<size_t>(id)];
  };
  bool changed = false;
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    const auto* row = std::ranges::find(kRows, node.op->name, &Row::op);
    if (row == std::end(kRows) || constant[static_cast<size_t>(id)] || !is_constant(node.inputs[row->weights]))
      continue;
    if (node.attributes.Bool("constant_weights")) continue;
    Attributes attributes = node.attributes;
    attributes.Set("constant_weights", true);
    graph.SetAttributes(id, std::move(attributes));
    changed = true;
  }
  context.Count(graph.node_count());
  return changed;
}

}  // namespace moka
