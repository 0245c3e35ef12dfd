// Fuse. Substitutes a pointwise producer into its only reader (pointwise or reduce_sum), so a chain touches memory
// once. Requires: a verified graph. Ensures: the same outputs bit for bit (the arithmetic is the same, element by
// element); expressions stay under a size that the tile interpreter holds in cache.
#include <algorithm>

#include "graph/expression.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

constexpr size_t kMaxInputs = 24;
constexpr size_t kMaxInstructions = 96;

struct Fused {
  std::vector<ValueId> inputs;
  Strings texts;
};

Strings ExpressionsOf(const Node& node) {
  if (node.op->name == "reduce_sum") return {node.attributes.String("expr")};
  return node.attributes.Get<Strings>("exprs");
}

// The reader's expression with the producer's result in place of input `slot`; no inputs if it would grow too large.
Fused Join(const Node& producer, const Node& reader, ValueId between) {
  Fused fused;
  const auto index_of = [&](ValueId id) {
    const auto it = std::find(fused.inputs.begin(), fused.inputs.end(), id);
    if (it != fused.inputs.end()) return static_cast<int>(it - fused.inputs.begin());
    fused.inputs.push_back(id);
    return static_cast<int>(fused.inputs.size()) - 1;
  };
  const Expression outer = Expression::Parse(ExpressionsOf(reader));
  const Expression all_inner = Expression::Parse(ExpressionsOf(producer));
  std::vector<int> map;
  for (const ValueId input : producer.inputs) map.push_back(index_of(input));
  const auto result =
      static_cast<int>(std::find(producer.outputs.begin(), producer.outputs.end(), between) - producer.outputs.begin());
  const Expression inner = all_inner.Select(std::vector<int>{result}).Renumber(map);
  std::vector<Expression> replacements;
  for (const ValueId input : reader.inputs) {
    replacements.push_back(input == between ? inner : Expression::Parse(StrCat("x", index_of(input))));
  }
  const Expression joined = outer.Substitute(replacements);
  if (fused.inputs.size() > kMaxInputs || joined.instructions().size() > kMaxInstructions) return {};
  fused.texts = joined.Texts();
  return fused;
}

// The largest shape a reader works over: a producer of a smaller one is cheaper computed once by itself.
Shape WorkShape(const Graph& graph, const Node& reader) {
  Shape shape = graph.shape(reader.inputs[0]);
  for (const ValueId input : reader.inputs) {
    if (graph.shape(input).Count() > shape.Count()) shape = graph.shape(input);
  }
  return shape;
}

bool FuseOne(Graph& graph, const std::vector<std::vector<NodeId>>& uses, const std::vector<bool>& pinned, NodeId id) {
  const Node reader = graph.node(id);
  for (const ValueId between : reader.inputs) {
    const NodeId producer_id = graph.value(between).producer;
    if (producer_id == kNoId || pinned[static_cast<size_t>(between)]) continue;
    const Node& producer = graph.node(producer_id);
    if (producer.op->name != "pointwise" || producer.outputs.size() != 1) continue;
    const std::vector<NodeId>& readers = uses[static_cast<size_t>(between)];
    const bool only_here = std::all_of(readers.begin(), readers.end(), [&](NodeId r) { return r == id; });
    if (!only_here || graph.shape(between) != WorkShape(graph, reader)) continue;
    const Fused fused = Join(producer, reader, between);
    if (fused.inputs.empty()) continue;
    Attributes attributes = reader.attributes;
    if (reader.op->name == "reduce_sum") {
      attributes.Set("expr", fused.texts.front());
    } else {
      attributes.Set("exprs", fused.texts);
    }
    const std::vector<ValueId> outputs =
        GraphBuilder(graph, reader.origin).Add(reader.op->name, fused.inputs, attributes);
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph.SetName(outputs[i], graph.value(reader.outputs[i]).name);
      graph.ReplaceUses(reader.outputs[i], outputs[i]);
    }
    graph.RemoveNode(id);
    graph.RemoveNode(producer_id);
    return true;
  }
  return false;
}

}  // namespace

bool FusePointwise(Graph& graph, const PassContext&) {
  bool changed = false;
  for (bool again = true; again;) {
    again = false;
    // A fusion makes the tables stale only for the nodes it touched; a second round meets those.
    const std::vector<std::vector<NodeId>> uses = graph.Uses();
    const std::vector<bool> pinned = Pinned(graph);
    for (const NodeId id : graph.TopologicalOrder()) {
      const std::string& op = graph.node(id).op->name;
      if ((op == "pointwise" || op == "reduce_sum") && FuseOne(graph, uses, pinned, id)) {
        again = changed = true;
        break;
      }
    }
  }
  return changed;
}

}  // namespace moka
