// A value is computed after those it is made of, by recursion along its producers.
#include "tools/exchange/graph_constants.h"

#include <utility>

#include "graph/passes/passes.h"

namespace moka {

GraphConstants::GraphConstants(const Graph& graph, const ParameterStore& store)
    : graph_(graph), store_(store), nodes_(ConstantNodes(graph, true)), written_(WrittenStates(graph)) {}

bool GraphConstants::IsConstant(ValueId value) const {
  const Value& v = graph_.value(value);
  if (v.producer != kNoId) return nodes_[static_cast<size_t>(v.producer)];
  return v.kind == ValueKind::kState && !written_[static_cast<size_t>(value)];
}

const RefTensor& GraphConstants::At(ValueId value) {
  const auto found = values_.find(value);
  if (found != values_.end()) return found->second;
  const Value& v = graph_.value(value);
  if (v.producer == kNoId) {
    const std::vector<float> floats = store_.Values(v.name);
    return values_[value] = {v.type, std::vector<double>(floats.begin(), floats.end())};
  }
  const Node& node = graph_.node(v.producer);
  std::vector<RefTensor> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(At(input));
  std::vector<RefTensor> outputs;
  for (const ValueId output : node.outputs) {
    const TensorType& type = graph_.type(output);
    outputs.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.Count()))});
  }
  node.op->reference(node.attributes, inputs, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) values_[node.outputs[i]] = std::move(outputs[i]);
  return values_.at(value);
}

std::vector<float> GraphConstants::FloatsAt(ValueId value) {
  const Value& v = graph_.value(value);
  if (v.producer == kNoId) return store_.Values(v.name);
  const RefTensor& tensor = At(value);
  return {tensor.values.begin(), tensor.values.end()};
}

}  // namespace moka
