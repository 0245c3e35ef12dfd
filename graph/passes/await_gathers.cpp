// Await gathers. A weight that all_gather_begin sends off at the end of a run is on its way when the next one begins:
// an all_gather_end, which waits and is otherwise an alias of the state, stands in front of the first node that reads
// it, so what comes before runs meanwhile. Requires: final layouts; the begun value is assigned to the state it reads.
// Ensures: every read of such a state is behind the wait.
#include <algorithm>

#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

void Await(Graph& graph, const Node& begin, const std::vector<NodeId>& readers) {
  const ValueId state = begin.inputs[0];
  NodeOrigin origin = begin.origin;
  for (const NodeId reader : readers) origin.sequence = std::min(origin.sequence, graph.node(reader).origin.sequence);
  const ValueId come =
      GraphBuilder(graph, origin).Add1("all_gather_end", {state}, {{"key", begin.attributes.Int("key")}});
  graph.SetType(come, graph.type(state));
  for (const NodeId reader : readers) {
    const std::vector<ValueId> inputs = graph.node(reader).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == state) graph.SetInput(reader, static_cast<int>(i), come);
    }
  }
  for (GraphOutput& output : graph.outputs()) {
    if (output.value == state) output.value = come;
  }
}

}  // namespace

bool AwaitGathers(Graph& graph, const PassContext& context) {
  std::vector<Node> begins;  // copies: nodes are added
  for (const NodeId id : graph.TopologicalOrder()) {
    if (graph.node(id).op->name == "all_gather_begin") begins.push_back(graph.node(id));
  }
  if (begins.empty()) return false;
  const std::vector<std::vector<NodeId>> uses = graph.Uses();
  for (const Node& begin : begins) Await(graph, begin, uses[static_cast<size_t>(begin.inputs[0])]);
  context.Count(graph.node_count());
  return true;
}

}  // namespace moka
