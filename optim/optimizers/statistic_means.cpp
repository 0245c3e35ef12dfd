// The state of a statistic in a graph, what is assigned to it, and its mean beside it.
#include "optim/optimizers/statistic_means.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph/term.h"

namespace moka {
namespace {

ValueId StateOf(Graph& graph, const NetBlob& blob) {
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).kind == ValueKind::kState && graph.value(id).name == blob.name) return id;
  }
  return graph.AddState(blob.name, {DType::kFloat32, blob.shape, {}});
}

ValueId AssignedTo(const Graph& graph, ValueId state) {
  const auto found = std::ranges::find(graph.assignments(), state, &Assignment::state);
  return found == graph.assignments().end() ? state : found->value;
}

}  // namespace

void AddMeansOfStatistics(Graph& graph, std::span<const NetBlob> statistics, ValueId guard, Updates& updates) {
  if (statistics.empty()) return;
  const Term decay = Term::Of(UpdateScalar(graph, "ema_decay", updates));
  for (const NetBlob& blob : statistics) {
    const GraphBuilder b(graph, NodeOrigin{blob.layer, {}, "update"});
    const ValueId newest = AssignedTo(graph, StateOf(graph, blob));
    std::string name = SlotName(blob.name, kEmaSlot);
    const ValueId mean = graph.AddState(name, {DType::kFloat32, blob.shape, {}});
    Term next = decay * Term::Of(mean) + (1 - decay) * Term::Of(newest);
    if (guard != kNoId) next = Select(IsFinite(Term::Of(guard)), next, Term::Of(mean));
    graph.Assign(mean, Computed(b, next));
    updates.slots.push_back({std::move(name), blob.name, blob.shape});
  }
}

}  // namespace moka
