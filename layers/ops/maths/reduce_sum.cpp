// y = sum over some axes of e(x_0, x_1, ...), an expression of broadcast inputs; the summed axes stay as dimensions
// of 1. The gradient is dx_i = dy * de/dx_i with dy repeated, summed over the axes along which x_i was repeated.
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/broadcast.h"
#include "layers/ops/maths/expression_cases.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

Shape ReducedShape(const Attributes& attributes, const Shape& shape) {
  Shape reduced = shape;
  for (const int64_t axis : attributes.Get<Ints>("axes")) {
    if (axis < 0 || axis >= shape.rank()) {
      throw Error(ErrorKind::kConfig, StrCat("reduce_sum: axis ", axis, " is not one of ", shape.ToString()));
    }
    reduced = reduced.With(static_cast<int>(axis), 1);
  }
  return reduced;
}

std::vector<TensorType> InferReduceSum(const Attributes& attributes, std::span<const TensorType> inputs) {
  const Expression expression = Expression::Parse(attributes.String("expr"));
  CheckExpressionInputs("reduce_sum", expression, inputs);
  const std::string name = attributes.Has("dtype") ? attributes.String("dtype") : "";
  const DType dtype = NamedResultDType("reduce_sum", name, inputs);
  return {PlainType(dtype, ReducedShape(attributes, BroadcastShape("reduce_sum", inputs)))};
}

std::vector<TensorType> TypesOf(std::span<const RefTensor> tensors) {
  std::vector<TensorType> types;
  for (const RefTensor& tensor : tensors) types.push_back(tensor.type);
  return types;
}

void ReduceSumReference(const Attributes& attributes, std::span<const RefTensor> inputs, std::span<RefTensor> outputs) {
  const Shape shape = BroadcastShape("reduce_sum", TypesOf(inputs));
  const Shape reduced = outputs[0].type.shape;
  std::vector<double> terms(static_cast<size_t>(shape.Count()));
  EvaluateEverywhere(Expression::Parse(attributes.String("expr")), shape, inputs,
                     [&](int64_t i, std::span<const double> result) { terms[static_cast<size_t>(i)] = result[0]; });
  std::ranges::fill(outputs[0].values, 0);
  VisitElements(shape, [&](const Index& index, int64_t offset) {
    Index to = index;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (reduced[axis] == 1) to[static_cast<size_t>(axis)] = 0;
    }
    outputs[0].values[static_cast<size_t>(RowMajor(reduced, to))] += terms[static_cast<size_t>(offset)];
  });
}

void ReduceSumGradient(GradientContext& ctx) {
  const GraphBuilder& b = ctx.b();
  const Expression expression = Expression::Parse(ctx.attributes().String("expr"));
  std::vector<ValueId> values;
  std::vector<TensorType> types;
  for (int i = 0; i < ctx.input_count(); ++i) {
    values.push_back(ctx.x(i));
    types.push_back(b.type(ctx.x(i)));
  }
  const Shape full = BroadcastShape("reduce_sum", types);
  values.push_back(ctx.dy(0));
  const Expression dy = Expression::Parse(StrCat("x", ctx.input_count()));
  for (int i = 0; i < ctx.input_count(); ++i) {
    if (!ctx.wants(i) || !IsFloat(types[static_cast<size_t>(i)].dtype)) continue;
    const Expression slope = expression.Derivative(0, i);
    if (slope == Expression::Parse("0")) continue;
    const Expression factors[] = {dy, slope};
    const auto [text, inputs] = Compact(Expression::Parse("x0*x1").Substitute(factors), values);
    const Shape x = b.shape(ctx.x(i));
    std::vector<TensorType> used;
    used.reserve(inputs.size());
    for (const ValueId input : inputs) used.push_back(b.type(input));
    // The operands may span less than the sum did (a plain sum reads dy alone): repeat dy, always the last, first.
    std::vector<ValueId> operands = inputs;
    if (BroadcastShape("reduce_sum", used) != full) {
      operands.back() = b.Add1("expand", {inputs.back()}, {{"shape", DimsOf(full)}});
    }
    Ints axes = BroadcastAxes(x, full);
    const std::string expr = text.Texts().front();
    if (axes.empty()) {
      ctx.SetDx(i, LikeInput(b, b.Pointwise(expr, operands), ctx.x(i)));
    } else {
      const ValueId sum = b.Add1("reduce_sum", operands, {{"expr", expr}, {"axes", std::move(axes)}});
      ctx.SetDx(i, b.Reshape(LikeInput(b, sum, ctx.x(i)), x));
    }
  }
}

int64_t ReduceSumFlops(const Attributes& attributes, std::span<const TensorType> inputs, std::span<const TensorType>) {
  int64_t operations = 1;
  const Expression expression = Expression::Parse(attributes.String("expr"));
  for (const Instruction& x : expression.instructions()) {
    if (x.a >= 0) ++operations;
  }
  return operations * BroadcastShape("reduce_sum", inputs).Count();
}

}  // namespace

OpDef ReduceSumOp() {
  return {
      .name = "reduce_sum",
      .doc = "Sum over axes of an expression of broadcast inputs; the summed axes stay as dimensions of 1.",
      .attributes = {{"expr", std::string("x0"), "expression summed (graph/expression.h)"},
                     {"axes", std::nullopt, "axes summed over; none gives the expression itself"},
                     {"dtype", std::string(), "the element type of the sum, \"\": that of the first floating input"}},
      .infer = InferReduceSum,
      .reference = ReduceSumReference,
      .gradient = ReduceSumGradient,
      .repeats =
          [](const Attributes& attributes) {
            return attributes.Get<Ints>("axes").empty() && attributes.String("expr") == "x0";
          },
      .precision = Precision::kKeep32,
      .flops = ReduceSumFlops,
      .cases = ReduceSumCases};
}

}  // namespace moka
