// Differentiates a copy of the graph in which the values are leaves, and looks whether any gradient came out: the op's
// own rules decide, not a table beside them.
#include "layers/net/loss_gradient.h"

#include <algorithm>
#include <vector>

#include "core/text.h"
#include "graph/autodiff.h"

namespace moka {

bool GradientReaches(Graph graph, ValueId loss, std::span<const ValueId> values) {
  const ValueId sum = GraphBuilder(graph, {}).SumAll(loss);
  // Differentiate wants leaves: what is computed before the values is cut off.
  std::vector<ValueId> leaves;
  for (const ValueId value : values) {
    leaves.push_back(graph.AddState(StrCat("(leaf ", leaves.size(), ")"), graph.type(value)));
    graph.ReplaceUses(value, leaves.back());
  }
  const std::vector<ValueId> gradients = Differentiate(graph, sum, leaves);
  return std::ranges::any_of(gradients, [](ValueId gradient) { return gradient != kNoId; });
}

bool DependsOn(const Graph& graph, ValueId value, const std::set<ValueId>& sources) {
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (sources.contains(at)) return true;
    const NodeId producer = graph.value(at).producer;
    if (!seen.insert(at).second || producer == kNoId) continue;
    const std::vector<ValueId>& inputs = graph.node(producer).inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return false;
}

}  // namespace moka
