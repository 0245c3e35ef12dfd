// Evaluates nodes in topological order by OpDef::reference. Nothing is optimised here: kernels, passes and gradients
// are tested against it.
#include "graph/interpreter.h"

#include "core/text.h"

namespace moka {

std::vector<RefTensor> Interpret(const Graph& graph, const std::map<ValueId, RefTensor>& fed,
                                 std::span<const ValueId> wanted) {
  std::map<ValueId, RefTensor> values = fed;
  const auto at = [&](ValueId id) -> const RefTensor& {
    const auto it = values.find(id);
    Require(it != values.end(), StrCat("Interpret: value ", id, " ", graph.value(id).name, " is fed"));
    return it->second;
  };
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    std::vector<RefTensor> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(at(input));
    std::vector<RefTensor> outputs;
    for (const ValueId output : node.outputs) {
      const TensorType type{graph.type(output).dtype, graph.shape(output), {}};
      outputs.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.Count()))});
    }
    node.op->reference(node.attributes, inputs, outputs);
    for (size_t i = 0; i < outputs.size(); ++i) values[node.outputs[i]] = std::move(outputs[i]);
  }
  std::vector<RefTensor> results;
  for (const ValueId id : wanted) results.push_back(at(id));
  return results;
}

}  // namespace moka
