// Compose. Joins forward nodes into ops that have a cheaper gradient or kernel: batch_norm + per-channel scale and
// shift, batch_norm + residual sum, batch_norm + ReLU, convolution or matmul + ReLU. Requires: a verified graph.
// Ensures: the same outputs; each value that disappears had one reader and was no output.
#include <algorithm>
#include <map>

#include "graph/expression.h"
#include "graph/layer_names.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace moka {
namespace {

bool IsExpression(const Node& node, std::string_view text) {
  if (node.op->name != "pointwise") return false;
  const Strings& exprs = node.attributes.Get<Strings>("exprs");
  return exprs.size() == 1 && Expression::Parse(exprs[0]) == Expression::Parse(text);
}

// [1,C,1,...]: one value a channel.
bool IsPerChannel(const Shape& shape, int64_t channels) {
  if (shape.rank() < 2 || shape.Count() != channels) return false;
  return shape[1] == channels;
}

// Replaces node `old_id` (and the producer it read) by a new node whose output 0 stands for old's output 0.
void ReplaceComposed(Graph& graph, Rewriter& rewriter, NodeId producer_id, NodeId old_id,
                     const std::vector<ValueId>& outputs) {
  const Node producer = graph.node(producer_id);
  const ValueId old_output = graph.node(old_id).outputs[0];
  graph.SetName(outputs[0], graph.value(old_output).name);
  rewriter.ReplaceUses(old_output, outputs[0]);
  rewriter.RemoveNode(old_id);
  for (size_t i = 1; i < producer.outputs.size(); ++i) rewriter.ReplaceUses(producer.outputs[i], outputs[i]);
  rewriter.RemoveNode(producer_id);
}

// y*x1+x2 after a plain batch_norm becomes its scale and shift.
bool ComposeScale(Graph& graph, Rewriter& rewriter, NodeId norm_id, NodeId user_id) {
  const Node norm = graph.node(norm_id);
  const Node user = graph.node(user_id);
  if (norm.inputs.size() != 1 || norm.attributes.Bool("relu")) return false;
  const bool affine = IsExpression(user, "x0*x1+x2");
  if (!affine && !IsExpression(user, "x0*x1")) return false;
  if (user.inputs[0] != norm.outputs[0]) return false;
  const int64_t channels = graph.shape(norm.inputs[0])[1];
  for (size_t i = 1; i < user.inputs.size(); ++i) {
    if (!IsPerChannel(graph.shape(user.inputs[i]), channels)) return false;
  }
  const GraphBuilder b(graph, user.origin);
  const ValueId scale = b.Reshape(user.inputs[1], Shape{channels});
  const ValueId shift = affine ? b.Reshape(user.inputs[2], Shape{channels}) : b.Full(Shape{channels}, 0.0);
  NodeOrigin origin = norm.origin;
  origin.layer = JoinedLayers(origin.layer, user.origin.layer);
  ReplaceComposed(graph, rewriter, norm_id, user_id,
                  GraphBuilder(graph, origin).Add("batch_norm", {norm.inputs[0], scale, shift}, norm.attributes));
  return true;
}

// The batch_norm whose result, scaled or not, is the value, if it is read by `user` alone and could take in a sum.
NodeId NormOf(const Graph& graph, Rewriter& rewriter, ValueId id, NodeId user) {
  for (int links = 0; links < 2; ++links) {
    const NodeId producer = graph.value(id).producer;
    if (producer == kNoId || rewriter.OnlyUser(id) != user) return kNoId;
    const Node& node = graph.node(producer);
    if (node.op->name == "batch_norm") {
      return node.attributes.Bool("relu") || node.attributes.Bool("sum") ? kNoId : producer;
    }
    if (!IsExpression(node, "x0*x1+x2") && !IsExpression(node, "x0*x1")) return kNoId;
    user = producer;
    id = node.inputs[0];
  }
  return kNoId;
}

// Whether a value may depend on a node's statistics; true if that takes long to tell.
bool MayNeedStatistics(const Graph& graph, Rewriter& rewriter, const Node& norm, ValueId id) {
  constexpr size_t kMost = 64;
  std::vector<ValueId> reached(norm.outputs.begin() + 1, norm.outputs.end());
  for (size_t i = 0; i < reached.size(); ++i) {
    if (reached[i] == id || reached.size() > kMost) return true;
    for (const NodeId reader : rewriter.Readers(reached[i])) {
      const std::vector<ValueId>& outputs = graph.node(reader).outputs;
      reached.insert(reached.end(), outputs.begin(), outputs.end());
    }
  }
  return false;
}

// y+r or max(y+r, 0) after a batch_norm becomes its summand. Where r is a batch_norm's too, the later one takes the sum
// in.
bool ComposeSum(Graph& graph, Rewriter& rewriter, NodeId norm_id, NodeId user_id) {
  const Node norm = graph.node(norm_id);
  const Node user = graph.node(user_id);
  if (norm.attributes.Bool("relu") || norm.attributes.Bool("sum")) return false;
  const bool relu = IsExpression(user, "max(x0+x1,0)");
  if (user.inputs.size() != 2 || !(relu || IsExpression(user, "x0+x1"))) return false;
  const ValueId other = user.inputs[user.inputs[0] == norm.outputs[0] ? 1 : 0];
  if (other == norm.outputs[0] || graph.shape(other) != graph.shape(norm.outputs[0])) return false;
  if (graph.type(other).dtype != graph.type(norm.outputs[0]).dtype) return false;
  const NodeId rival = NormOf(graph, rewriter, other, user_id);
  if (rival != kNoId && graph.node(rival).origin.sequence > norm.origin.sequence) return false;
  if (MayNeedStatistics(graph, rewriter, norm, other)) return false;
  std::vector<ValueId> inputs = norm.inputs;
  inputs.push_back(other);
  Attributes attributes = norm.attributes;
  attributes.Set("sum", true);
  attributes.Set("relu", relu);
  NodeOrigin origin = norm.origin;
  origin.layer = JoinedLayers(origin.layer, user.origin.layer);
  ReplaceComposed(graph, rewriter, norm_id, user_id, GraphBuilder(graph, origin).Add("batch_norm", inputs, attributes));
  return true;
}

// max(y, 0) after a batch_norm, convolution or matmul becomes its attribute.
bool ComposeRelu(Graph& graph, Rewriter& rewriter, NodeId producer_id, NodeId user_id) {
  const Node producer = graph.node(producer_id);
  const Node user = graph.node(user_id);
  if (!IsExpression(user, "max(x0,0)")) return false;
  Attributes attributes = producer.attributes;
  if (producer.op->name == "batch_norm") {
    if (attributes.Bool("relu")) return false;
    attributes.Set("relu", true);
  } else {
    if (!attributes.String("activation").empty()) return false;
    attributes.Set("activation", std::string("relu"));
  }
  NodeOrigin origin = producer.origin;
  origin.layer = JoinedLayers(origin.layer, user.origin.layer);
  ReplaceComposed(graph, rewriter, producer_id, user_id,
                  GraphBuilder(graph, origin).Add(producer.op->name, producer.inputs, attributes));
  return true;
}

// Whether the node is a convolution that reads each stride-th position of x alone, by windows of one element.
bool Subsamples(const Graph& graph, const Node& node) {
  if (node.op->name != "convolution" || node.inputs[0] == node.inputs[1]) return false;
  const auto all = [](std::span<const int64_t> values, int64_t value) {
    return std::ranges::all_of(values, [&](int64_t v) { return v == value; });
  };
  const Attributes& attributes = node.attributes;
  return all(graph.shape(node.inputs[1]).dims().subspan(2), 1) && !all(attributes.Get<Ints>("stride"), 1) &&
         all(attributes.Get<Ints>("pad_begin"), 0) && all(attributes.Get<Ints>("pad_end"), 0);
}

// y of a batch_norm with a residual, made at the positions alone that its readers take; kNoId unless x is one that
// nothing else reads.
ValueId SampledNorm(Graph& graph, Rewriter& rewriter, ValueId x, const Ints& stride, size_t sharers) {
  const NodeId producer = graph.value(x).producer;
  if (producer == kNoId || rewriter.IsPinned(x) || rewriter.Readers(x).size() != sharers) return kNoId;
  const Node norm = graph.node(producer);
  if (norm.op->name != "batch_norm" || !norm.attributes.Bool("sum") || graph.shape(x).rank() != 4) return kNoId;
  if (norm.outputs[0] != x || !norm.attributes.Get<Ints>("stride").empty()) return kNoId;
  Attributes attributes = norm.attributes;
  attributes.Set("stride", stride);
  const std::vector<ValueId> made = GraphBuilder(graph, norm.origin).Add("batch_norm", norm.inputs, attributes);
  for (size_t i = 1; i < made.size(); ++i) rewriter.ReplaceUses(norm.outputs[i], made[i]);
  return made[0];
}

// The positions as averages over windows of one.
ValueId SampledCopy(Graph& graph, const NodeOrigin& origin, ValueId x, const Ints& stride) {
  const Ints zeros(stride.size(), 0);
  return GraphBuilder(graph, origin)
      .Add1("pool_average", {x},
            {{"kernel", Ints(stride.size(), 1)},
             {"stride", stride},
             {"pad_begin", zeros},
             {"pad_end", zeros},
             {"count_begin", zeros},
             {"count_end", zeros}});
}

// The positions lie together, are read as such, and their gradients are summed before they spread over the large value.
void ShareSubsample(Graph& graph, Rewriter& rewriter, const std::vector<NodeId>& sharers) {
  const Node first = graph.node(sharers[0]);
  const ValueId x = first.inputs[0];
  const NodeId producer = graph.value(x).producer;
  const Ints stride = first.attributes.Get<Ints>("stride");
  ValueId positions = SampledNorm(graph, rewriter, x, stride, sharers.size());
  const bool is_norm = positions != kNoId;
  if (!is_norm) positions = SampledCopy(graph, first.origin, x, stride);
  for (const NodeId sharer : sharers) {
    const Node node = graph.node(sharer);
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = positions;
    Attributes attributes = node.attributes;
    attributes.Set("stride", Ints(stride.size(), 1));
    const std::vector<ValueId> outputs = GraphBuilder(graph, node.origin).Add("convolution", inputs, attributes);
    graph.SetName(outputs[0], graph.value(node.outputs[0]).name);
    rewriter.ReplaceUses(node.outputs[0], outputs[0]);
    rewriter.RemoveNode(sharer);
  }
  if (is_norm) rewriter.RemoveNode(producer);
}

}  // namespace

bool ShareSubsamples(Graph& graph) {
  std::map<std::pair<ValueId, Ints>, std::vector<NodeId>> readers;  // by the value and the strides
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    if (Subsamples(graph, node)) readers[{node.inputs[0], node.attributes.Get<Ints>("stride")}].push_back(id);
  }
  std::erase_if(readers, [](const auto& entry) { return entry.second.size() < 2; });
  Rewriter rewriter(graph);
  for (const auto& [place, sharers] : readers) ShareSubsample(graph, rewriter, sharers);
  return !readers.empty();
}

bool ComposeForward(Graph& graph, int64_t* visits) {
  Rewriter rewriter(graph);
  const bool changed = rewriter.Sweep([&](NodeId id) {
    const Node& node = graph.node(id);
    const std::string& op = node.op->name;
    if (op != "batch_norm" && op != "convolution" && op != "matmul") return false;
    const bool is_norm = op == "batch_norm";
    const NodeId user = rewriter.OnlyUser(node.outputs[0]);
    if (user == kNoId) return false;
    if (is_norm && (ComposeScale(graph, rewriter, id, user) || ComposeSum(graph, rewriter, id, user))) return true;
    return ComposeRelu(graph, rewriter, id, user);
  });
  if (visits != nullptr) *visits += rewriter.visits();
  return changed;
}

}  // namespace moka
