// A twin takes its node's origin, hence its layer's name and place in the order, and final types, as passes that add
// twins come after the layouts.
#include "graph/passes/twins.h"

#include "graph/binding.h"
#include "graph/op.h"

namespace moka {

std::vector<ValueId> Twins::Add(const Node& node, const std::string& op, const std::vector<ValueId>& inputs,
                                const Attributes& more, const std::vector<TensorType>& types, ValueId named) {
  Attributes attributes = more;
  for (const AttributeSpec& spec : graph_.catalog().Op(op).attributes) {
    const auto it = node.attributes.values().find(spec.name);
    if (it != node.attributes.values().end()) attributes.Set(spec.name, it->second);
  }
  std::vector<ValueId> outputs = GraphBuilder(graph_, node.origin).Add(op, inputs, attributes);
  for (size_t i = 0; i < outputs.size(); ++i) graph_.SetType(outputs[i], types[i]);
  graph_.SetName(outputs[0], graph_.value(named).name);
  return outputs;
}

bool Twins::Keeps(const Pair& pair, Rewriter& rewriter) const {
  if (HaveOneRow(pair.first, pair.first_of) && HaveOneRow(pair.second, pair.second_of)) return true;
  rewriter.RemoveNode(pair.second);
  rewriter.RemoveNode(pair.first);
  return false;
}

// The rows are those that are first to take the nodes.
bool Twins::HaveOneRow(NodeId id, NodeId other) const {
  const KernelDef* row = FirstRow(graph_, id, context_.options);
  const KernelDef* other_row = FirstRow(graph_, other, context_.options);
  return row != nullptr && other_row != nullptr && row->name == other_row->name;
}

}  // namespace moka
