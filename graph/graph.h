// The SSA graph. Each Value is written once by one Node (or is an input or a state); in-place is the planner's
// business. Nodes and values are named by stable ids; removing a node leaves a hole. Order is not stored:
// TopologicalOrder() derives it, earliest sequence first, so it is deterministic. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/types.h"
#include "graph/attributes.h"

namespace moka {

struct OpDef;
class Catalog;
class Term;

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr int32_t kNoId = -1;

// Where a node comes from: the layer, its place in the prototxt, the pass that made it, and its place in the schedule:
// a node that replaces another inherits its sequence with the origin; kNoId lets AddNode give the next number.
struct NodeOrigin {
  std::string layer;
  SourcePlace place;
  std::string pass;
  int32_t sequence = kNoId;
};

enum class ValueKind : uint8_t {
  kResult,  // output of a node
  kInput,   // fed before each run: data, labels, the learning rate
  kState,   // lives in the ParameterStore between runs: weights, statistics, optimiser slots
};

struct Value {
  ValueKind kind = ValueKind::kResult;
  TensorType type;
  std::string name;  // unique for inputs and states (the store's key); for results a label for dumps
  NodeId producer = kNoId;
  int output_index = 0;
  ValueId mirrored = kNoId;  // a state that repeats this other state in a second layout
};

struct Node {
  NodeId id = kNoId;
  const OpDef* op = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
  NodeOrigin origin;
};

// A named value the caller reads after a run.
struct GraphOutput {
  std::string name;
  ValueId value = kNoId;
};

// After a run the state holds the new value. Requires: same dtype and shape.
struct Assignment {
  ValueId state = kNoId;
  ValueId value = kNoId;
};

class Graph {
 public:
  explicit Graph(const Catalog& catalog) : catalog_(&catalog) {}

  const Catalog& catalog() const { return *catalog_; }

  ValueId AddInput(std::string name, TensorType type);
  ValueId AddState(std::string name, TensorType type);
  // A state that repeats another one in a layout and an element type of its own; what assigns the one must assign the
  // other.
  ValueId AddMirror(ValueId state, DType dtype, const Layout& layout);
  // Adds a node; its attributes are completed with the op's defaults and its outputs are typed by the op's infer.
  // Errors: what infer says, with the origin's layer and place added; kInternal for an unknown op or attribute.
  const Node& AddNode(std::string_view op, std::vector<ValueId> inputs, Attributes attributes, NodeOrigin origin);
  void AddOutput(std::string name, ValueId value) { outputs_.push_back({std::move(name), value}); }
  void Assign(ValueId state, ValueId value);

  // Requires: nothing uses its outputs.
  void RemoveNode(NodeId id);
  // Every use of `from` (inputs, outputs, assignments) becomes `to`.
  void ReplaceUses(ValueId from, ValueId to);
  void SetInput(NodeId node, int index, ValueId value);
  // Changes attributes and retypes the node's outputs.
  void SetAttributes(NodeId node, Attributes attributes);
  void SetType(ValueId value, const TensorType& type) { values_[static_cast<size_t>(value)].type = type; }
  void SetName(ValueId value, std::string name) { values_[static_cast<size_t>(value)].name = std::move(name); }

  bool IsAlive(NodeId id) const { return nodes_[static_cast<size_t>(id)].op != nullptr; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  // A copy: references into the graph end when a node is added.
  Shape shape(ValueId id) const { return value(id).type.shape; }
  int value_count() const { return static_cast<int>(values_.size()); }
  int node_count() const { return live_nodes_; }
  // One past the largest NodeId; ids below it may be dead.
  int node_limit() const { return static_cast<int>(nodes_.size()); }

  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  std::vector<GraphOutput>& outputs() { return outputs_; }
  const std::vector<Assignment>& assignments() const { return assignments_; }
  std::vector<Assignment>& assignments() { return assignments_; }

  // Live nodes, producers first, smallest (sequence, id) first among the ready. Errors: kInternal on a cycle.
  std::vector<NodeId> TopologicalOrder() const;
  // For each value the nodes that read it (once per read).
  std::vector<std::vector<NodeId>> Uses() const;
  // Types of a node's inputs or outputs.
  std::vector<TensorType> InputTypes(const Node& node) const;
  std::vector<TensorType> OutputTypes(const Node& node) const;

 private:
  ValueId AddValue(Value value);

  const Catalog* catalog_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<GraphOutput> outputs_;
  std::vector<Assignment> assignments_;
  int live_nodes_ = 0;
};

// Adds nodes with one origin; what layers, gradients and optimisers are written with.
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, NodeOrigin origin) : graph_(&graph), origin_(std::move(origin)) {}

  Graph& graph() const { return *graph_; }
  // Copies, which stay as they are while nodes are added.
  Shape shape(ValueId id) const { return graph_->shape(id); }
  TensorType type(ValueId id) const { return graph_->type(id); }

  // The outputs of a new node; Add1 for ops with exactly one.
  std::vector<ValueId> Add(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) const;
  ValueId Add1(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) const;

  // Elementwise: the expressions over inputs x0, x1, ... (graph/expression.h). Inputs broadcast: equal ranks with
  // dimensions equal or 1, or rank 0 (a scalar).
  ValueId Pointwise(std::string expression, std::vector<ValueId> inputs) const;
  std::vector<ValueId> Pointwise(Strings expressions, std::vector<ValueId> inputs) const;
  ValueId Pointwise(const Term& term, std::vector<ValueId> inputs) const;
  std::vector<ValueId> Pointwise(const std::vector<Term>& terms, std::vector<ValueId> inputs) const;
  // Same elements, new dimensions. Returns the value itself when nothing changes.
  ValueId Reshape(ValueId x, const Shape& shape) const;
  // Sums over axes, keeping them as dimensions of 1.
  ValueId ReduceSum(ValueId x, Ints axes) const;
  // Sums over every axis; a scalar.
  ValueId SumAll(ValueId x) const;
  // Sums x over the axes along which `shape` was broadcast to x, giving exactly `shape` (a broadcast's gradient).
  ValueId SumTo(ValueId x, const Shape& shape) const;
  // A tensor filled with one value.
  ValueId Full(const Shape& shape, double value, DType dtype = DType::kFloat32) const;

 private:
  Graph* graph_;
  NodeOrigin origin_;
};

// Text of a whole graph, one node a line with types, attributes and origin; stable, so tests compare it.
std::string ToText(const Graph& graph);
// Checks every promise of the graph: types agree with infer, ids are alive, no cycle, names unique, assignments typed.
// Errors: kInternal naming the pass that ran last.
void Verify(const Graph& graph, std::string_view after);

}  // namespace moka
