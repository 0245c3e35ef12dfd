// The builder's nodes are always of its origin; sums and reshapes that would change nothing add no node.
#include "graph/graph.h"
#include "graph/term.h"

namespace moka {

std::vector<ValueId> GraphBuilder::Add(std::string_view op, std::vector<ValueId> inputs, Attributes attributes) const {
  return graph_->AddNode(op, std::move(inputs), std::move(attributes), origin_).outputs;
}

ValueId GraphBuilder::Add1(std::string_view op, std::vector<ValueId> inputs, Attributes attributes) const {
  const std::vector<ValueId> outputs = Add(op, std::move(inputs), std::move(attributes));
  Require(outputs.size() == 1, StrCat("op ", op, " has one output"));
  return outputs.front();
}

ValueId GraphBuilder::Pointwise(std::string expression, std::vector<ValueId> inputs) const {
  return Pointwise(Strings{std::move(expression)}, std::move(inputs)).front();
}

std::vector<ValueId> GraphBuilder::Pointwise(Strings expressions, std::vector<ValueId> inputs) const {
  return Add("pointwise", std::move(inputs), {{"exprs", std::move(expressions)}});
}

ValueId GraphBuilder::Pointwise(const Term& term, std::vector<ValueId> inputs) const {
  std::string text = term.Text(inputs);
  return Pointwise(std::move(text), std::move(inputs));
}

std::vector<ValueId> GraphBuilder::Pointwise(const std::vector<Term>& terms, std::vector<ValueId> inputs) const {
  Strings expressions;
  for (const Term& term : terms) expressions.push_back(term.Text(inputs));
  return Pointwise(std::move(expressions), std::move(inputs));
}

ValueId GraphBuilder::Reshape(ValueId x, const Shape& to) const {
  if (shape(x) == to) return x;
  return Add1("reshape", {x}, {{"shape", DimsOf(to)}});
}

ValueId GraphBuilder::ReduceSum(ValueId x, Ints axes) const {
  return Add1("reduce_sum", {x}, {{"axes", std::move(axes)}});
}

ValueId GraphBuilder::SumAll(ValueId x) const {
  Ints axes;
  for (int axis = 0; axis < shape(x).rank(); ++axis) axes.push_back(axis);
  if (axes.empty()) return x;
  return Reshape(ReduceSum(x, std::move(axes)), Shape{});
}

ValueId GraphBuilder::SumTo(ValueId x, const Shape& to) const {
  if (shape(x) == to) return x;
  if (to.rank() == 0) return SumAll(x);
  Require(shape(x).rank() == to.rank(), "SumTo: equal ranks");
  Ints axes;
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to[axis] == 1 && shape(x)[axis] != 1) axes.push_back(axis);
  }
  return ReduceSum(x, std::move(axes));
}

ValueId GraphBuilder::Full(const Shape& to, double value, DType dtype) const {
  return Add1("full", {}, {{"shape", DimsOf(to)}, {"value", value}, {"dtype", std::string(NameOf(dtype))}});
}

}  // namespace moka
