// The mask of a ReLU before a max pooling, moved behind it. The pooling sends each dy to the element its window took,
// which is above 0 where the window's maximum is: so dy can be masked before it is spread, by the pooling's result, and
// the mask costs a pass over the pooled tensor instead of one over the whole.
#include "graph/passes/fuse_pool.h"
#include "graph/expression.h"
#include "graph/op.h"

namespace moka {
namespace {

constexpr const char* kMask = "select(gt(x1,0),x0,0)";

bool IsMask(const Node& node) {
  if (node.op->name != "pointwise" || node.inputs.size() != 2) return false;
  const Strings& texts = node.attributes.Get<Strings>("exprs");
  return texts.size() == 1 && Expression::Parse(texts) == Expression::Parse(kMask);
}

}  // namespace

bool MaskPooled(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node mask = graph.node(id);
  if (!IsMask(mask)) return false;
  const NodeId backward_id = graph.value(mask.inputs[0]).producer;
  if (backward_id == kNoId || rewriter.OnlyUser(mask.inputs[0]) != id) return false;
  const Node backward = graph.node(backward_id);
  if (backward.op->name != "pool_max_backward") return false;
  const NodeId forward_id = graph.value(backward.inputs[1]).producer;
  if (forward_id == kNoId || graph.node(forward_id).op->name != "pool_max") return false;
  const Node& forward = graph.node(forward_id);
  if (forward.inputs[0] != mask.inputs[1] || graph.type(forward.outputs[0]) != graph.type(backward.inputs[0]) ||
      graph.type(mask.outputs[0]).dtype != graph.type(backward.outputs[0]).dtype) {
    return false;
  }
  const GraphBuilder b(graph, backward.origin);
  const ValueId dy = b.Pointwise(kMask, {backward.inputs[0], forward.outputs[0]});
  const ValueId dx = b.Add1("pool_max_backward", {dy, backward.inputs[1]}, backward.attributes);
  graph.SetName(dx, graph.value(mask.outputs[0]).name);
  rewriter.ReplaceUses(mask.outputs[0], dx);
  rewriter.RemoveNode(id);
  rewriter.RemoveNode(backward_id);
  return true;
}

}  // namespace moka
