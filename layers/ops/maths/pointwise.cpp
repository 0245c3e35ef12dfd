// y_j = e_j(x_0, x_1, ...) elementwise over broadcast inputs (graph/expression.h): all activations, sums, scales,
// dropout masks and optimiser updates are this op. The gradient is dx_i = sum_j dy_j * de_j/dx_i, summed over the axes
// along which x_i was repeated. Whatever the types of the inputs, expressions are computed in float32 or wider and
// rounded once, to the type of the output.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/broadcast.h"
#include "layers/ops/maths/expression_cases.h"

namespace moka {
namespace {

std::vector<TensorType> InferPointwise(const Attributes& attributes, std::span<const TensorType> inputs) {
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  if (expression.results().empty()) throw Error(ErrorKind::kConfig, "pointwise: exprs is empty; give one an output");
  CheckExpressionInputs("pointwise", expression, inputs);
  return ResultTypes("pointwise", attributes, expression.results().size(), inputs, BroadcastShape("pointwise", inputs));
}

void PointwiseReference(const Attributes& attributes, std::span<const RefTensor> inputs, std::span<RefTensor> outputs) {
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  if (outputs.empty()) return;
  EvaluateEverywhere(expression, outputs[0].type.shape, inputs, [&](int64_t i, std::span<const double> results) {
    for (size_t y = 0; y < outputs.size(); ++y) outputs[y].values[static_cast<size_t>(i)] = results[y];
  });
}

// sum_j x_{n+j} * de_j/dx_i over the outputs a gradient reached, x_{n+j} standing for dy_j; a constant 0 if there is
// none.
Expression GradientExpression(const GradientContext& ctx, const Expression& expression, int i) {
  const Expression sum = Expression::Parse("x0+x1*x2");
  Expression total = Expression::Parse("0");
  for (size_t j = 0; j < expression.results().size(); ++j) {
    if (ctx.dy(static_cast<int>(j)) == kNoId) continue;
    const Expression slope = expression.Derivative(static_cast<int>(j), i);
    if (slope == Expression::Parse("0")) continue;
    const Expression terms[] = {total, slope, Expression::Parse(StrCat("x", ctx.input_count() + static_cast<int>(j)))};
    total = sum.Substitute(terms);
  }
  return total;
}

void PointwiseGradient(GradientContext& ctx) {
  const GraphBuilder& b = ctx.b();
  const Expression expression = Expression::Parse(ctx.attributes().Get<Strings>("exprs"));
  std::vector<ValueId> values;
  values.reserve(static_cast<size_t>(ctx.input_count()) + expression.results().size());
  for (int i = 0; i < ctx.input_count(); ++i) values.push_back(ctx.x(i));
  for (size_t j = 0; j < expression.results().size(); ++j) values.push_back(ctx.dy(static_cast<int>(j)));
  const Shape y = b.shape(ctx.y(0));
  for (int i = 0; i < ctx.input_count(); ++i) {
    if (!ctx.wants(i) || !IsFloat(b.type(ctx.x(i)).dtype)) continue;
    const Expression gradient = GradientExpression(ctx, expression, i);
    const auto [text, inputs] = Compact(gradient, values);
    if (inputs.empty()) continue;  // zero everywhere
    const Shape x = b.shape(ctx.x(i));
    Ints axes = BroadcastAxes(x, y);
    if (axes.empty()) {
      ctx.SetDx(i, LikeInput(b, b.Pointwise(text.Texts().front(), inputs), ctx.x(i)));
    } else {
      const ValueId sum = b.Add1("reduce_sum", inputs, {{"expr", text.Texts().front()}, {"axes", std::move(axes)}});
      ctx.SetDx(i, b.Reshape(LikeInput(b, sum, ctx.x(i)), x));
    }
  }
}

int64_t PointwiseFlops(const Attributes& attributes, std::span<const TensorType>, std::span<const TensorType> outputs) {
  int64_t operations = 0;
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  for (const Instruction& x : expression.instructions()) {
    if (x.a >= 0) ++operations;
  }
  return outputs.empty() ? 0 : operations * outputs[0].shape.Count();
}

}  // namespace

OpDef PointwiseOp() {
  return {.name = "pointwise",
          .doc = "Elementwise expressions over broadcast inputs; one output each.",
          .attributes = {{"exprs", std::nullopt, "one expression an output (graph/expression.h)"},
                         {"dtypes", Strings{},
                          "the element type of each output, \"\" or none: that of the first floating input"}},
          .infer = InferPointwise,
          .reference = PointwiseReference,
          .gradient = PointwiseGradient,
          // Every output has the broadcast shape; the planner compares types, and elements are read before written.
          .may_overwrite = [](const Attributes&, int, int) { return true; },
          // Random numbers are keyed by an element's place in the whole batch.
          .by_image =
              [](const Attributes& attributes, int) {
                const bool is_random = Expression::Parse(attributes.Get<Strings>("exprs")).IsRandom();
                return is_random ? ByImage::kNever : ByImage::kWithBroadcast;
              },
          .repeats = [](const Attributes& attributes) { return attributes.Get<Strings>("exprs") == Strings{"x0"}; },
          .flops = PointwiseFlops,
          .cases = PointwiseCases};
}

}  // namespace moka
