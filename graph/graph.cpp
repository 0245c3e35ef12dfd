// Every change keeps the invariants that Verify checks: types are inferred as a node is added, names of inputs and
// states are unique, and nodes that are removed leave a hole, so that ids stay valid during a pass.
#include "graph/graph.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "core/text.h"
#include "graph/layer_names.h"
#include "graph/op.h"

namespace moka {
namespace {

// Fills in an op's defaults. Errors: kInternal for an attribute the op does not have or lacks.
Attributes Complete(const OpDef& op, Attributes attributes) {
  for (const auto& [name, value] : attributes.values()) {
    const bool known = std::any_of(op.attributes.begin(), op.attributes.end(),
                                   [&key = name](const AttributeSpec& spec) { return spec.name == key; });
    Require(known, StrCat("op ", op.name, " has an attribute ", name));
  }
  for (const AttributeSpec& spec : op.attributes) {
    if (attributes.Has(spec.name)) continue;
    Require(spec.fallback.has_value(), StrCat("op ", op.name, " is given its attribute ", spec.name));
    attributes.Set(spec.name, *spec.fallback);
  }
  return attributes;
}

std::vector<TensorType> InferTypes(const OpDef& op, const Attributes& attributes, std::vector<TensorType> inputs,
                                   const NodeOrigin& origin) {
  for (TensorType& type : inputs) type.layout = {};
  try {
    return op.infer(attributes, inputs);
  } catch (Error& error) {
    if (!origin.layer.empty()) error.AddNote(StrCat("in layer \"", LayersText(origin.layer), "\""));
    error.SetPlace(origin.place);
    throw;
  }
}

}  // namespace

ValueId Graph::AddValue(Value value) {
  values_.push_back(std::move(value));
  return static_cast<ValueId>(values_.size()) - 1;
}

ValueId Graph::AddInput(std::string name, TensorType type) {
  return AddValue({ValueKind::kInput, type, std::move(name), kNoId, 0});
}

ValueId Graph::AddState(std::string name, TensorType type) {
  return AddValue({ValueKind::kState, type, std::move(name), kNoId, 0});
}

ValueId Graph::AddMirror(ValueId state, DType dtype, const Layout& layout) {
  const Value& original = value(state);
  Require(original.kind == ValueKind::kState && original.mirrored == kNoId, "AddMirror: of a state that is no mirror");
  const TensorType type{dtype, original.type.shape, layout};
  std::string name = StrCat(original.name, "@", layout.Name(type.shape.rank()));
  if (dtype != original.type.dtype) name += StrCat("@", NameOf(dtype));
  const ValueId mirror = AddState(std::move(name), type);
  values_[static_cast<size_t>(mirror)].mirrored = state;
  return mirror;
}

const Node& Graph::AddNode(std::string_view op_name, std::vector<ValueId> inputs, Attributes attributes,
                           NodeOrigin origin) {
  const OpDef& op = catalog_->Op(op_name);
  Node node;
  node.id = static_cast<NodeId>(nodes_.size());
  node.op = &op;
  node.inputs = std::move(inputs);
  node.attributes = Complete(op, std::move(attributes));
  node.origin = std::move(origin);
  if (node.origin.sequence == kNoId) node.origin.sequence = node.id;
  std::vector<TensorType> types = InferTypes(op, node.attributes, InputTypes(node), node.origin);
  for (size_t i = 0; i < types.size(); ++i) {
    node.outputs.push_back(AddValue({ValueKind::kResult, types[i], {}, node.id, static_cast<int>(i)}));
  }
  nodes_.push_back(std::move(node));
  ++live_nodes_;
  return nodes_.back();
}

void Graph::Assign(ValueId state, ValueId value) {
  Require(this->value(state).kind == ValueKind::kState, "Assign: the target is a state");
  Require(type(state).shape == type(value).shape && type(state).dtype == type(value).dtype,
          StrCat("Assign: state ", this->value(state).name, " and value agree in type"));
  assignments_.push_back({state, value});
}

void Graph::RemoveNode(NodeId id) {
  Node& node = nodes_[static_cast<size_t>(id)];
  Require(node.op != nullptr, "RemoveNode: the node is alive");
  node.op = nullptr;
  node.inputs.clear();
  node.outputs.clear();
  --live_nodes_;
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  for (Node& node : nodes_) {
    if (node.op != nullptr) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  }
  for (GraphOutput& output : outputs_) {
    if (output.value == from) output.value = to;
  }
  for (Assignment& assignment : assignments_) {
    if (assignment.value == from) assignment.value = to;
  }
}

void Graph::SetInput(NodeId node, int index, ValueId value) {
  nodes_[static_cast<size_t>(node)].inputs[static_cast<size_t>(index)] = value;
}

void Graph::SetAttributes(NodeId id, Attributes attributes) {
  Node& node = nodes_[static_cast<size_t>(id)];
  node.attributes = Complete(*node.op, std::move(attributes));
  const std::vector<TensorType> types = InferTypes(*node.op, node.attributes, InputTypes(node), node.origin);
  Require(types.size() == node.outputs.size(), "SetAttributes keeps the number of outputs");
  for (size_t i = 0; i < types.size(); ++i) SetType(node.outputs[i], types[i]);
}

std::vector<TensorType> Graph::InputTypes(const Node& node) const {
  std::vector<TensorType> types;
  for (const ValueId id : node.inputs) types.push_back(type(id));
  return types;
}

std::vector<TensorType> Graph::OutputTypes(const Node& node) const {
  std::vector<TensorType> types;
  for (const ValueId id : node.outputs) types.push_back(type(id));
  return types;
}

std::vector<std::vector<NodeId>> Graph::Uses() const {
  std::vector<std::vector<NodeId>> uses(values_.size());
  for (const Node& node : nodes_) {
    if (node.op == nullptr) continue;
    for (const ValueId input : node.inputs) uses[static_cast<size_t>(input)].push_back(node.id);
  }
  return uses;
}

std::vector<NodeId> Graph::TopologicalOrder() const {
  const std::vector<std::vector<NodeId>> uses = Uses();
  std::vector<int> waiting(nodes_.size(), 0);
  using Key = std::pair<int32_t, NodeId>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  const auto push = [&](NodeId id) { ready.emplace(node(id).origin.sequence, id); };
  for (const Node& node : nodes_) {
    if (node.op == nullptr) continue;
    for (const ValueId input : node.inputs)
      waiting[static_cast<size_t>(node.id)] += value(input).producer != kNoId ? 1 : 0;
    if (waiting[static_cast<size_t>(node.id)] == 0) push(node.id);
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const NodeId id = ready.top().second;
    ready.pop();
    order.push_back(id);
    for (const ValueId output : node(id).outputs) {
      for (const NodeId user : uses[static_cast<size_t>(output)]) {
        if (--waiting[static_cast<size_t>(user)] == 0) push(user);
      }
    }
  }
  Require(static_cast<int>(order.size()) == live_nodes_, "the graph has no cycle");
  return order;
}

}  // namespace moka
