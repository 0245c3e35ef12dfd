// Fuse. Substitutes a pointwise producer into its only reader (pointwise or reduce_sum), so a chain touches memory
// once, lets these nodes read and write what casts beside them did, gives batch_norm_backward the summands of the
// gradient it reads, and moves a ReLU's mask behind max pooling. Requires: a verified graph. Ensures: the same outputs
// bit for bit (the arithmetic is the same, element by element; a value that is no longer stored in a half type is not
// rounded); expressions stay under a size that the tile interpreter holds in cache.
#include <algorithm>

#include "graph/expression.h"
#include "graph/op.h"
#include "graph/passes/fuse_pool.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

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
Fused JoinNodes(const Node& producer, const Node& reader, ValueId between) {
  Fused fused;
  const auto index_of = [&](ValueId id) {
    const auto it = std::find(fused.inputs.begin(), fused.inputs.end(), id);
    if (it != fused.inputs.end()) return static_cast<int>(it - fused.inputs.begin());
    fused.inputs.push_back(id);
    return static_cast<int>(fused.inputs.size()) - 1;
  };
  std::vector<int> map;
  for (const ValueId input : producer.inputs) map.push_back(index_of(input));
  std::vector<int> places;  // of the reader's inputs
  for (const ValueId input : reader.inputs) places.push_back(input == between ? kNoId : index_of(input));
  if (fused.inputs.size() > kMaxInputs) return {};
  const Expression outer = Expression::Parse(ExpressionsOf(reader));
  const Expression all_inner = Expression::Parse(ExpressionsOf(producer));
  const auto result =
      static_cast<int>(std::find(producer.outputs.begin(), producer.outputs.end(), between) - producer.outputs.begin());
  const Expression inner = all_inner.Select(std::vector<int>{result}).Renumber(map);
  std::vector<Expression> replacements;
  replacements.reserve(places.size());
  for (const int place : places) {
    replacements.push_back(place == kNoId ? inner : Expression::Parse(StrCat("x", place)));
  }
  const Expression joined = outer.Substitute(replacements);
  if (joined.instructions().size() > kMaxInstructions) return {};
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

// Whether the node reads so many values that joining any producer would exceed the limit.
bool IsWide(const Node& reader) {
  if (reader.inputs.size() <= kMaxInputs + 1) return false;
  std::vector<ValueId> inputs = reader.inputs;
  std::sort(inputs.begin(), inputs.end());
  return static_cast<size_t>(std::unique(inputs.begin(), inputs.end()) - inputs.begin()) > kMaxInputs + 1;
}

// The reader over other inputs, in its place. Results keep their types: an expression that reads others names them.
void ReplaceFused(Graph& graph, Rewriter& rewriter, const Node& reader, const std::vector<ValueId>& inputs,
                  const Attributes& attributes) {
  const std::vector<ValueId> outputs = GraphBuilder(graph, reader.origin).Add(reader.op->name, inputs, attributes);
  Strings dtypes;
  for (const ValueId id : reader.outputs) dtypes.emplace_back(NameOf(graph.type(id).dtype));
  if (dtypes.front() != NameOf(graph.type(outputs[0]).dtype)) {
    Attributes typed = attributes;
    typed.Set(reader.op->name == "reduce_sum" ? "dtype" : "dtypes",
              reader.op->name == "reduce_sum" ? AttributeValue(dtypes.front()) : AttributeValue(dtypes));
    graph.SetAttributes(graph.value(outputs[0]).producer, typed);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph.SetName(outputs[i], graph.value(reader.outputs[i]).name);
    rewriter.ReplaceUses(reader.outputs[i], outputs[i]);
  }
  rewriter.RemoveNode(reader.id);
}

// The first of the reader's inputs that a pointwise node computes for it alone and over its whole shape, and that may
// be joined.
bool FuseOne(Graph& graph, Rewriter& rewriter, NodeId id) {
  if (IsWide(graph.node(id))) return false;
  const Node reader = graph.node(id);
  const Shape work = reader.inputs.empty() ? Shape{} : WorkShape(graph, reader);
  for (const ValueId between : reader.inputs) {
    const NodeId producer_id = graph.value(between).producer;
    if (producer_id == kNoId || rewriter.IsPinned(between)) continue;
    const Node& producer = graph.node(producer_id);
    if (producer.op->name != "pointwise" || producer.outputs.size() != 1) continue;
    const bool only_here = std::count(reader.inputs.begin(), reader.inputs.end(), between) == rewriter.reads(between);
    if (!only_here || graph.shape(between) != work) continue;
    const Fused fused = JoinNodes(producer, reader, between);
    if (fused.inputs.empty()) continue;
    Attributes attributes = reader.attributes;
    if (reader.op->name == "reduce_sum") {
      attributes.Set("expr", fused.texts.front());
    } else {
      attributes.Set("exprs", fused.texts);
    }
    ReplaceFused(graph, rewriter, reader, fused.inputs, attributes);
    rewriter.RemoveNode(producer_id);
    return true;
  }
  return false;
}

bool IsFloatCast(const Graph& graph, NodeId id) {
  if (id == kNoId || !graph.IsAlive(id) || graph.node(id).op->name != "cast") return false;
  const Node& cast = graph.node(id);
  return IsFloat(graph.type(cast.inputs[0]).dtype) && IsFloat(graph.type(cast.outputs[0]).dtype);
}

// The reader reads what a cast to a wider type read, or a cast for it alone: it computes in float32 all the same.
bool ReadPastCast(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node reader = graph.node(id);
  std::vector<ValueId> inputs = reader.inputs;
  for (ValueId& input : inputs) {
    const NodeId producer = graph.value(input).producer;
    if (!IsFloatCast(graph, producer)) continue;
    const ValueId source = graph.node(producer).inputs[0];
    const bool widens = BytesOf(graph.type(source).dtype) < BytesOf(graph.type(input).dtype);
    if (widens || rewriter.OnlyUser(input) == id) input = source;
  }
  if (inputs == reader.inputs) return false;
  ReplaceFused(graph, rewriter, reader, inputs, reader.attributes);
  for (const ValueId input : reader.inputs) {
    const NodeId producer = graph.value(input).producer;
    if (!IsFloatCast(graph, producer)) continue;
    if (rewriter.reads(input) == 0 && !rewriter.IsPinned(input)) rewriter.RemoveNode(producer);
  }
  return true;
}

// A pointwise node whose result only this cast reads gives the type wanted itself.
bool CastInProducer(Graph& graph, Rewriter& rewriter, NodeId id) {
  if (!IsFloatCast(graph, id)) return false;
  const Node cast = graph.node(id);
  const ValueId between = cast.inputs[0];
  const NodeId producer_id = graph.value(between).producer;
  if (producer_id == kNoId || rewriter.OnlyUser(between) != id) return false;
  const Node producer = graph.node(producer_id);
  if (producer.op->name != "pointwise" || producer.outputs.size() != 1) return false;
  Attributes attributes = producer.attributes;
  attributes.Set("dtypes", Strings{cast.attributes.String("dtype")});
  const ValueId result = GraphBuilder(graph, producer.origin).Add1("pointwise", producer.inputs, attributes);
  graph.SetName(result, graph.value(cast.outputs[0]).name);
  rewriter.ReplaceUses(cast.outputs[0], result);
  rewriter.RemoveNode(id);
  rewriter.RemoveNode(producer_id);
  return true;
}

// As many gradients as the kernels of batch_norm_backward add.
constexpr size_t kMaxGradients = 4;

// How many values of one shape a node merely adds up; 0 if it does anything else.
size_t Summands(const Graph& graph, const Node& node) {
  const size_t count = node.inputs.size();
  if (node.op->name != "pointwise" || node.outputs.size() != 1 || count < 2 || count > kMaxGradients) return 0;
  std::string text = "x0";
  for (size_t i = 1; i < count; ++i) text += StrCat("+x", i);
  if (Expression::Parse(ExpressionsOf(node)) != Expression::Parse(text)) return 0;
  const TensorType& sum = graph.type(node.outputs[0]);
  return std::ranges::all_of(node.inputs, [&](ValueId id) { return graph.type(id) == sum; }) ? count : 0;
}

// dy = a + b + .. read by a batch_norm_backward alone becomes its inputs a, b, ..: the sum never lies in memory.
bool JoinGradients(Graph& graph, Rewriter& rewriter, NodeId id) {
  constexpr size_t kFirst = 3;  // x, mean and variance come before the gradients
  const Node reader = graph.node(id);
  const ValueId dy = reader.inputs[kFirst];
  const NodeId producer = graph.value(dy).producer;
  if (reader.attributes.Int("gradients") != 1 || producer == kNoId || rewriter.OnlyUser(dy) != id) return false;
  const size_t count = Summands(graph, graph.node(producer));
  if (count == 0) return false;
  std::vector<ValueId> inputs(reader.inputs.begin(), reader.inputs.begin() + kFirst);
  const std::vector<ValueId>& summands = graph.node(producer).inputs;
  inputs.insert(inputs.end(), summands.begin(), summands.end());
  inputs.insert(inputs.end(), reader.inputs.begin() + kFirst + 1, reader.inputs.end());
  Attributes attributes = reader.attributes;
  attributes.Set("gradients", static_cast<int64_t>(count));
  ReplaceFused(graph, rewriter, reader, inputs, attributes);
  rewriter.RemoveNode(producer);
  return true;
}

}  // namespace

bool FusePointwise(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  const bool changed = rewriter.Sweep([&](NodeId id) {
    const std::string& op = graph.node(id).op->name;
    if (op == "batch_norm_backward") return JoinGradients(graph, rewriter, id);
    if (op == "pointwise" && MaskPooled(graph, rewriter, id)) return true;
    if (op == "cast") return CastInProducer(graph, rewriter, id);
    if (op != "pointwise" && op != "reduce_sum") return false;
    return ReadPastCast(graph, rewriter, id) || FuseOne(graph, rewriter, id);
  });
  context.Count(rewriter.visits());
  return changed;
}

}  // namespace moka
