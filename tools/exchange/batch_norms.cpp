// Finds the formulas of layers/types/normalisation/batch_norm.cpp and layers/types/maths/scale.cpp by their text. What
// is not exactly one of them stays as it is, and is right all the same.
#include "tools/exchange/batch_norms.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/text.h"
#include "graph/expression.h"
#include "graph/layer_names.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

constexpr const char* kUnbiased = "x0*select(eq(x1,0),0,1/x1)";  // a sum divided by the sum of its weights

// The expression of a pointwise node with one result; nothing for another node.
std::optional<Expression> FormulaOf(const Graph& graph, NodeId id) {
  if (id == kNoId || graph.node(id).op->name != "pointwise") return std::nullopt;
  const Strings& texts = graph.node(id).attributes.Get<Strings>("exprs");
  if (texts.size() != 1) return std::nullopt;
  return Expression::Parse(texts);
}

bool HasFormula(const Graph& graph, NodeId id, std::string_view text) {
  const std::optional<Expression> formula = FormulaOf(graph, id);
  return formula && *formula == Expression::Parse(text);
}

// [C] behind [1,C,1,..]: the value that a reshape spreads over the channels; kNoId for another value.
ValueId ChannelsBehind(const Graph& graph, ValueId spread, int64_t channels) {
  const NodeId producer = graph.value(spread).producer;
  if (producer == kNoId || graph.node(producer).op->name != "reshape") return kNoId;
  const ValueId values = graph.node(producer).inputs[0];
  const Shape shape = graph.shape(spread);
  if (shape.rank() < 2 || shape[1] != channels || shape.Count() != channels) return kNoId;
  return graph.shape(values) == Shape{channels} ? values : kNoId;
}

// 1/sqrt(sum/weight + eps).
struct InverseDeviation {
  ValueId sum = kNoId;
  ValueId weight = kNoId;
  double eps = 0;
};

std::optional<InverseDeviation> InverseDeviationOf(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  const std::optional<Expression> formula = FormulaOf(graph, producer);
  if (!formula || graph.node(producer).inputs.size() != 2) return std::nullopt;
  for (const Instruction& part : formula->instructions()) {
    if (part.op != ScalarOp::kConstant) continue;
    if (*formula != Expression::Parse(StrCat("1/sqrt(", kUnbiased, "+", part.constant, ")"))) continue;
    return InverseDeviation{graph.node(producer).inputs[0], graph.node(producer).inputs[1], part.constant};
  }
  return std::nullopt;
}

// A batch norm that was found, and the scale and shift behind it, if there are.
struct FoundNorm {
  NodeId norm = kNoId;
  ValueId mean = kNoId;  // [C]
  InverseDeviation deviation;
  NodeId affine = kNoId;
  std::vector<ValueId> blobs = {};  // scale and maybe shift, each [C]
};

void FindAffine(const Graph& graph, const std::vector<std::vector<NodeId>>& uses, const std::vector<bool>& pinned,
                int64_t channels, FoundNorm& found) {
  const ValueId y = graph.node(found.norm).outputs[0];
  const std::vector<NodeId>& readers = uses[static_cast<size_t>(y)];
  if (readers.size() != 1 || pinned[static_cast<size_t>(y)]) return;
  const bool shifts = HasFormula(graph, readers[0], "x0*x1+x2");
  if (!shifts && !HasFormula(graph, readers[0], "x0*x1")) return;
  const Node& affine = graph.node(readers[0]);
  if (affine.inputs[0] != y) return;
  std::vector<ValueId> blobs;
  for (size_t i = 1; i < affine.inputs.size(); ++i) {
    blobs.push_back(ChannelsBehind(graph, affine.inputs[i], channels));
    if (blobs.back() == kNoId || graph.value(blobs.back()).kind != ValueKind::kState) return;
  }
  found.affine = affine.id;
  found.blobs = std::move(blobs);
}

std::vector<FoundNorm> FindNorms(const Graph& graph) {
  const std::vector<std::vector<NodeId>> uses = graph.Uses();
  const std::vector<bool> pinned = Pinned(graph);
  std::vector<FoundNorm> all;
  for (const NodeId id : graph.TopologicalOrder()) {
    if (!HasFormula(graph, id, "(x0-x1)*x2")) continue;
    const Node& node = graph.node(id);
    const Shape x = graph.shape(node.inputs[0]);
    if (x.rank() < 2) continue;
    FoundNorm found;
    found.norm = id;
    found.mean = ChannelsBehind(graph, node.inputs[1], x[1]);
    const ValueId inverse = ChannelsBehind(graph, node.inputs[2], x[1]);
    if (found.mean == kNoId || inverse == kNoId) continue;
    const std::optional<InverseDeviation> deviation = InverseDeviationOf(graph, inverse);
    if (!deviation || !HasFormula(graph, graph.value(found.mean).producer, kUnbiased)) continue;
    found.deviation = *deviation;
    FindAffine(graph, uses, pinned, x[1], found);
    all.push_back(std::move(found));
  }
  return all;
}

void ReplaceNorm(Graph& graph, const FoundNorm& found) {
  const NodeOrigin origin = graph.node(found.norm).origin;
  const std::string layer = LayersText(origin.layer);
  const GraphBuilder b(graph, origin);
  const ValueId variance = b.Pointwise(kUnbiased, {found.deviation.sum, found.deviation.weight});
  graph.SetName(variance, layer + "/variance");
  graph.SetName(found.mean, layer + "/mean");
  std::vector<ValueId> inputs = {graph.node(found.norm).inputs[0], found.mean, variance};
  inputs.insert(inputs.end(), found.blobs.begin(), found.blobs.end());
  if (found.blobs.size() == 1) inputs.push_back(b.Full(graph.shape(found.mean), 0));
  const ValueId y = b.Add1("batch_norm_apply", inputs, {{"eps", found.deviation.eps}});
  const NodeId last = found.affine == kNoId ? found.norm : found.affine;
  const ValueId replaced = graph.node(last).outputs[0];
  graph.SetName(y, graph.value(replaced).name);
  graph.ReplaceUses(replaced, y);
}

}  // namespace

void JoinBatchNorms(Graph& graph) {
  for (const FoundNorm& found : FindNorms(graph)) ReplaceNorm(graph, found);
  RemoveDeadNodes(graph);
}

}  // namespace moka
