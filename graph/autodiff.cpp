// Walks the nodes backwards from the loss, asks each op's rule for its inputs' gradients, and adds up contributions as
// one node for each value (Griewank and Walther, "Evaluating Derivatives", 2008, chapter 3). Sums of products that
// share a weight become one product.
#include "graph/autodiff.h"

#include <map>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"

namespace moka {
namespace {

// x0+x1+...: all contributions to one gradient in a single node.
ValueId Sum(const GraphBuilder& b, const std::vector<ValueId>& parts) {
  if (parts.size() == 1) return parts.front();
  std::string text = "x0";
  for (size_t i = 1; i < parts.size(); ++i) text += StrCat("+x", i);
  return b.Pointwise(text, parts);
}

// a [K,m] and b [K,n] of a product a^T b; nothing for any other value.
struct Product {
  ValueId a = kNoId;
  ValueId b = kNoId;
  bool found = false;
};
Product ProductOf(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (producer == kNoId) return {};
  const Node& node = graph.node(producer);
  if (node.op->name != "matmul" || node.inputs.size() != 2 || graph.shape(value).rank() != 2) return {};
  const Attributes& a = node.attributes;
  if (!a.Bool("transpose_a") || a.Bool("transpose_b") || !a.String("activation").empty()) return {};
  return {node.inputs[0], node.inputs[1], true};
}

// A weight that many products share (a recurrent layer's, once a step) has a part of its own size for each:
// sum a_i^T b_i = [a_1; a_2; ..]^T [b_1; b_2; ..] is one product and needs none of them. Done where the stacked factors
// are no larger than the parts; the products left over are dead nodes.
std::vector<ValueId> JoinProducts(const GraphBuilder& b, const std::vector<ValueId>& parts) {
  std::vector<ValueId> left;
  std::vector<ValueId> as;
  std::vector<ValueId> bs;
  int64_t rows = 0;
  for (const ValueId part : parts) {
    const Product product = ProductOf(b.graph(), part);
    if (!product.found) {
      left.push_back(part);
      continue;
    }
    as.push_back(product.a);
    bs.push_back(product.b);
    rows += b.shape(product.a)[0];
  }
  if (as.size() < 2) return parts;
  const Shape shape = b.shape(parts.front());
  const Size stacked = Size(rows) * (Size(shape[0]) + shape[1]);
  if (stacked > Size(shape.Count()) * static_cast<int64_t>(as.size())) return parts;
  const Attributes first{{"axis", int64_t{0}}};
  const Attributes transposed{{"transpose_a", true}, {"transpose_b", false}};
  left.push_back(b.Add1("matmul", {b.Add1("concat", as, first), b.Add1("concat", bs, first)}, transposed));
  return left;
}

class GraphDifferentiator {
 public:
  GraphDifferentiator(Graph& graph, std::span<const ValueId> wrt)
      : graph_(graph), order_(graph.TopologicalOrder()), wanted_(static_cast<size_t>(graph.value_count()), false) {
    for (const ValueId id : wrt) wanted_[static_cast<size_t>(id)] = true;
    // A value is wanted if it depends on a wanted one through differentiable nodes.
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (node.op->gradient == nullptr) continue;
      bool any = false;
      for (const ValueId input : node.inputs) any = any || wanted_[static_cast<size_t>(input)];
      for (const ValueId output : node.outputs) wanted_[static_cast<size_t>(output)] = any;
    }
  }

  void Run(ValueId loss, ValueId seed) {
    const GraphBuilder b(graph_, {{}, {}, "autodiff", kNoId});
    if (!wanted_[static_cast<size_t>(loss)]) return;
    parts_[loss] = {seed == kNoId ? b.Full(graph_.shape(loss), 1.0, graph_.type(loss).dtype) : seed};
    for (size_t i = order_.size(); i-- > 0;) Visit(order_[i]);
  }

  // The finished gradient of a value; kNoId if nothing reached it.
  ValueId Gradient(ValueId id, const NodeOrigin& origin) {
    const auto it = parts_.find(id);
    if (it == parts_.end()) return kNoId;
    const GraphBuilder b(graph_, origin);
    const ValueId sum = Sum(b, JoinProducts(b, it->second));
    it->second = {sum};
    return sum;
  }

 private:
  void Visit(NodeId id) {
    const Node node = graph_.node(id);  // a copy: the rule adds nodes
    if (node.op->gradient == nullptr) return;
    std::vector<bool> wanted;
    bool any_wanted = false;
    for (const ValueId input : node.inputs) {
      wanted.push_back(wanted_[static_cast<size_t>(input)]);
      any_wanted = any_wanted || wanted.back();
    }
    if (!any_wanted) return;
    NodeOrigin origin = node.origin;
    origin.pass = "autodiff";
    origin.sequence = kNoId;
    std::vector<ValueId> dy;
    bool any_dy = false;
    for (const ValueId output : node.outputs) {
      dy.push_back(Gradient(output, origin));
      any_dy = any_dy || dy.back() != kNoId;
    }
    if (!any_dy) return;
    const GraphBuilder b(graph_, origin);
    GradientContext context(b, node, dy, wanted);
    node.op->gradient(context);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId dx = context.dx()[i];
      if (dx == kNoId || !wanted[i]) continue;
      Require(graph_.shape(dx) == graph_.shape(node.inputs[i]),
              StrCat("the gradient of op ", node.op->name, " has its input's shape"));
      parts_[node.inputs[i]].push_back(dx);
    }
  }

  Graph& graph_;
  std::vector<NodeId> order_;
  std::vector<bool> wanted_;
  std::map<ValueId, std::vector<ValueId>> parts_;
};

}  // namespace

std::vector<ValueId> Differentiate(Graph& graph, ValueId loss, std::span<const ValueId> wrt, ValueId seed) {
  Require(graph.shape(loss).rank() == 0, "Differentiate: the loss is a scalar");
  GraphDifferentiator differentiator(graph, wrt);
  differentiator.Run(loss, seed);
  std::vector<ValueId> gradients;
  gradients.reserve(wrt.size());
  for (const ValueId id : wrt) gradients.push_back(differentiator.Gradient(id, {{}, {}, "autodiff", kNoId}));
  return gradients;
}

}  // namespace moka
