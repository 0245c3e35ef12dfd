// Fold. In inference what follows a convolution and is affine in its result, channel by channel (batch norm by running
// statistics, scale, bias), moves into its weights and bias; adding a value of the same shape becomes its sum, a ReLU
// its activation. What ops save for their gradient (a max pooling's argmax, a recurrence's gates) is left out where
// nobody reads it. The new weights are ordinary nodes of states alone, computed once by RefreshConstants. Requires:
// inference; each value that disappears has one reader. Ensures: outputs equal up to rounding.
#include <algorithm>
#include <optional>
#include <string_view>

#include "graph/expression.h"
#include "graph/layer_names.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace moka {
namespace {

// The facts that the pass knows about one candidate: a convolution and the pointwise node that alone reads it.
struct Candidate {
  Node conv;
  Node user;
  Expression expression;  // the user's single result
  int slot = 0;           // which input of the user is the convolution
};

std::optional<Candidate> Match(const Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node& conv = graph.node(id);
  if (conv.op->name != "convolution" || !conv.attributes.String("activation").empty()) return std::nullopt;
  const NodeId user_id = rewriter.OnlyUser(conv.outputs[0]);
  if (user_id == kNoId || graph.node(user_id).op->name != "pointwise") return std::nullopt;
  const Node& user = graph.node(user_id);
  if (user.outputs.size() != 1 || graph.shape(user.outputs[0]) != graph.shape(conv.outputs[0])) return std::nullopt;
  const auto slot = std::find(user.inputs.begin(), user.inputs.end(), conv.outputs[0]) - user.inputs.begin();
  return Candidate{conv, user, Expression::Parse(user.attributes.Get<Strings>("exprs")), static_cast<int>(slot)};
}

// Input i holds one constant a channel or one constant.
bool IsConstantPerChannel(const Graph& graph, const std::vector<bool>& constant, ValueId id, int64_t channels) {
  const Value& value = graph.value(id);
  const bool fixed =
      value.producer != kNoId ? constant[static_cast<size_t>(value.producer)] : value.kind == ValueKind::kState;
  const Shape& shape = value.type.shape;
  return fixed && (shape.Count() == 1 || (shape.rank() >= 2 && shape[1] == channels && shape.Count() == channels));
}

// [1,C,1,1] or a scalar as [C,1,1,1] (for weights) or [C] (for the bias).
ValueId AsShape(const GraphBuilder& b, ValueId x, int64_t channels, const Shape& shape) {
  return b.shape(x).Count() == channels ? b.Reshape(x, shape) : b.Reshape(x, Shape{});
}

void ReplaceBoth(Graph& graph, Rewriter& rewriter, const Candidate& c, const std::vector<ValueId>& inputs,
                 const Attributes& attributes) {
  NodeOrigin origin = c.conv.origin;
  origin.layer = JoinedLayers(origin.layer, c.user.origin.layer);
  const ValueId y = GraphBuilder(graph, origin).Add1("convolution", inputs, attributes);
  graph.SetName(y, graph.value(c.user.outputs[0]).name);
  rewriter.ReplaceUses(c.user.outputs[0], y);
  rewriter.RemoveNode(c.user.id);
  rewriter.RemoveNode(c.conv.id);
}

bool FoldAffine(Graph& graph, Rewriter& rewriter, const std::vector<bool>& constant, const Candidate& c) {
  if (c.conv.attributes.Bool("sum")) return false;
  const int64_t channels = graph.shape(c.conv.outputs[0])[1];
  for (size_t i = 0; i < c.user.inputs.size(); ++i) {
    if (static_cast<int>(i) == c.slot) continue;
    if (!IsConstantPerChannel(graph, constant, c.user.inputs[i], channels)) return false;
  }
  const Expression slope = c.expression.Derivative(0, c.slot);
  if (slope.UsesInput(c.slot) || c.expression.IsRandom()) return false;
  std::vector<Expression> at_zero;
  for (size_t i = 0; i < c.user.inputs.size(); ++i) {
    at_zero.push_back(Expression::Parse(static_cast<int>(i) == c.slot ? "0" : StrCat("x", i)));
  }
  const Expression offset = c.expression.Substitute(at_zero);

  NodeOrigin origin = c.user.origin;
  origin.pass = "fold";
  const GraphBuilder b(graph, origin);
  // The slot's place is filled by a scalar that neither expression reads.
  std::vector<ValueId> inputs = c.user.inputs;
  inputs[static_cast<size_t>(c.slot)] = b.Full(Shape{}, 0.0);
  const Shape per_output = [&] {
    Shape shape{channels};
    while (shape.rank() < graph.shape(c.conv.inputs[1]).rank()) shape = shape.Inserted(shape.rank(), 1);
    return shape;
  }();
  const ValueId a = b.Pointwise(slope.Texts(), inputs).front();
  const ValueId w = b.Pointwise("x0*x1", {c.conv.inputs[1], AsShape(b, a, channels, per_output)});
  const ValueId constant_term = AsShape(b, b.Pointwise(offset.Texts(), inputs).front(), channels, Shape{channels});
  ValueId bias = kNoId;
  if (c.conv.inputs.size() > 2) {
    bias = b.Pointwise("x0*x1+x2", {c.conv.inputs[2], AsShape(b, a, channels, Shape{channels}), constant_term});
  } else {
    bias = b.Pointwise("x0+x1", {b.Full(Shape{channels}, 0.0), constant_term});
  }
  ReplaceBoth(graph, rewriter, c, {c.conv.inputs[0], w, bias}, c.conv.attributes);
  return true;
}

bool FoldSum(Graph& graph, Rewriter& rewriter, const Candidate& c, const Device& device) {
  if (c.conv.attributes.Bool("sum") || c.user.inputs.size() != 2) return false;
  if (c.expression != Expression::Parse("x0+x1")) return false;
  const ValueId other = c.user.inputs[static_cast<size_t>(1 - c.slot)];
  if (other == c.conv.outputs[0] || graph.shape(other) != graph.shape(c.conv.outputs[0])) return false;
  std::vector<ValueId> inputs = c.conv.inputs;
  inputs.push_back(other);
  Attributes attributes = c.conv.attributes;
  attributes.Set("sum", true);
  // cuDNN does not promise that a summand may lie where the result is written.
  if (!device.is_cpu()) attributes.Set("keeps_summand", true);
  ReplaceBoth(graph, rewriter, c, inputs, attributes);
  return true;
}

bool FoldRelu(Graph& graph, Rewriter& rewriter, const Candidate& c) {
  if (c.user.inputs.size() != 1 || c.expression != Expression::Parse("max(x0,0)")) return false;
  Attributes attributes = c.conv.attributes;
  attributes.Set("activation", std::string("relu"));
  ReplaceBoth(graph, rewriter, c, c.conv.inputs, attributes);
  return true;
}

// Ops that save results for their gradient, and the same without them.
struct Saving {
  std::string_view op;
  std::string_view without;
};
constexpr Saving kSaving[] = {
    {"gru", "gru_forward"},
    {"lstm", "lstm_forward"},
    {"pool_max", "pool_max_forward"},
    {"softmax_loss", "softmax_loss_forward"},
};

// Drops the results that a node saves for its gradient (where a maximum was, say): nobody reads them when nothing flows
// back.
bool DropSaved(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node node = graph.node(id);
  const auto* row = std::ranges::find(kSaving, node.op->name, &Saving::op);
  if (row == std::end(kSaving)) return false;
  const size_t results = graph.catalog().Op(row->without).infer(node.attributes, graph.InputTypes(node)).size();
  for (size_t o = results; o < node.outputs.size(); ++o) {
    if (rewriter.reads(node.outputs[o]) > 0 || rewriter.IsPinned(node.outputs[o])) return false;
  }
  const std::vector<ValueId> y = GraphBuilder(graph, node.origin).Add(row->without, node.inputs, node.attributes);
  for (size_t o = 0; o < results; ++o) {
    graph.SetName(y[o], graph.value(node.outputs[o]).name);
    rewriter.ReplaceUses(node.outputs[o], y[o]);
  }
  rewriter.RemoveNode(id);
  return true;
}

}  // namespace

bool FoldInference(Graph& graph, const PassContext& context) {
  if (!context.options.inference) return false;
  Rewriter rewriter(graph);
  std::vector<bool> constant = ConstantNodes(graph, true);
  const std::vector<bool> written = WrittenStates(graph);
  const bool changed = rewriter.Sweep([&](NodeId id) {
    if (DropSaved(graph, rewriter, id)) {
      constant.resize(static_cast<size_t>(graph.node_limit()), false);
      return true;
    }
    const std::optional<Candidate> c = Match(graph, rewriter, id);
    if (!c) return false;
    const bool replaced = FoldAffine(graph, rewriter, constant, *c) ||
                          FoldSum(graph, rewriter, *c, context.options.device) || FoldRelu(graph, rewriter, *c);
    // An added node reads only values that were there or were added before it, so one sweep in order suffices.
    for (auto added = static_cast<NodeId>(constant.size()); added < graph.node_limit(); ++added) {
      constant.push_back(IsConstantNode(graph, graph.node(added), constant, written, true));
    }
    return replaced;
  });
  context.Count(rewriter.visits());
  return changed;
}

}  // namespace moka
