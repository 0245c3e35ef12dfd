// Sparse updates. A table's gradient is zero in every row that no index names, so where an update leaves a weight of
// zero gradient as it is (plain SGD: no decay, no momentum), the dense gradient and the sweep over the table become one
// embed_update, which reads and writes the rows named.
// Requires: a verified graph after "fuse", so that an update is one pointwise node. Ensures: the same states bit for
// bit while the update's scalars are finite (times an infinite rate a gradient of zero would not be zero).
#include <algorithm>

#include "graph/expression.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace moka {
namespace {

// The result of an instruction where the gradient is zero.
enum class Given : uint8_t { kOther, kZero, kWeight };

// Whether the only result is input `weight` wherever input `gradient` is zero and the other inputs are finite.
bool KeepsWithoutGradient(const Expression& update, int weight, int gradient) {
  std::vector<Given> given;
  const auto of = [&](int32_t i) { return given[static_cast<size_t>(i)]; };
  const auto result = [&](const Instruction& x) {
    switch (x.op) {
      case ScalarOp::kInput:
        return x.input == weight ? Given::kWeight : x.input == gradient ? Given::kZero : Given::kOther;
      case ScalarOp::kConstant: return x.constant == 0 ? Given::kZero : Given::kOther;
      case ScalarOp::kMul: return of(x.a) == Given::kZero || of(x.b) == Given::kZero ? Given::kZero : Given::kOther;
      case ScalarOp::kNeg: return of(x.a) == Given::kZero ? Given::kZero : Given::kOther;
      case ScalarOp::kAdd:
        if (of(x.a) == Given::kZero) return of(x.b);
        return of(x.b) == Given::kZero ? of(x.a) : Given::kOther;
      case ScalarOp::kSub: return of(x.b) == Given::kZero ? of(x.a) : Given::kOther;
      case ScalarOp::kSelect: return of(x.b) == of(x.c) ? of(x.b) : Given::kOther;
      default: return Given::kOther;
    }
  };
  for (const Instruction& x : update.instructions()) given.push_back(result(x));
  return update.results().size() == 1 && of(update.results().front()) == Given::kWeight;
}

// The state that a value is assigned to, if it is just one.
ValueId StateAssigned(const Graph& graph, ValueId value) {
  ValueId state = kNoId;
  for (const Assignment& assignment : graph.assignments()) {
    if (assignment.value != value) continue;
    if (state != kNoId) return kNoId;
    state = assignment.state;
  }
  return state;
}

// The input of an update that is a table's gradient which nobody else reads, or -1.
int TableGradient(const Graph& graph, Rewriter& rewriter, const Node& update) {
  for (size_t i = 0; i < update.inputs.size(); ++i) {
    const NodeId producer = graph.value(update.inputs[i]).producer;
    if (producer == kNoId || graph.node(producer).op->name != "embed_backward") continue;
    if (rewriter.OnlyUser(update.inputs[i]) == update.id) return static_cast<int>(i);
  }
  return -1;
}

bool ReplaceWithSparse(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node update = graph.node(id);
  const int gradient = TableGradient(graph, rewriter, update);
  if (gradient < 0 || update.outputs.size() != 1) return false;
  const ValueId table = StateAssigned(graph, update.outputs[0]);
  const auto at = std::ranges::find(update.inputs, table);
  if (table == kNoId || at == update.inputs.end() || graph.type(table) != graph.type(update.outputs[0])) return false;
  if (graph.shape(table)[0] < 2 || graph.shape(table)[1] < 2) return false;  // no kernel takes one line
  const auto weight = static_cast<int>(at - update.inputs.begin());
  const Expression expression = Expression::Parse(update.attributes.Get<Strings>("exprs"));
  if (!KeepsWithoutGradient(expression, weight, gradient)) return false;
  const Node backward = graph.node(graph.value(update.inputs[static_cast<size_t>(gradient)]).producer);
  std::vector<ValueId> inputs{backward.inputs[0], backward.inputs[1], table};
  std::vector<int> map;  // to the table, its gradient and the scalars after them
  for (int i = 0; i < static_cast<int>(update.inputs.size()); ++i) {
    const ValueId input = update.inputs[static_cast<size_t>(i)];
    const bool is_scalar = i != weight && i != gradient;
    if (is_scalar && graph.shape(input).rank() != 0) return false;
    map.push_back(is_scalar ? static_cast<int>(inputs.size()) - 1 : i == weight ? 0 : 1);
    if (is_scalar) inputs.push_back(input);
  }
  const ValueId updated = GraphBuilder(graph, update.origin)
                              .Add1("embed_update", inputs, {{"expr", expression.Renumber(map).Texts().front()}});
  graph.SetName(updated, graph.value(update.outputs[0]).name);
  rewriter.ReplaceUses(update.outputs[0], updated);
  rewriter.RemoveNode(id);
  rewriter.RemoveNode(backward.id);
  return true;
}

}  // namespace

bool UpdateSparsely(Graph& graph, const PassContext& context) {
  if (!context.options.device.is_cpu()) return false;  // a sweep over the table is no work for a GPU
  Rewriter rewriter(graph);
  const bool changed = rewriter.Sweep(
      [&](NodeId id) { return graph.node(id).op->name == "pointwise" && ReplaceWithSparse(graph, rewriter, id); });
  context.Count(rewriter.visits());
  return changed;
}

}  // namespace moka
