// Every operator of the expression language once at least, and the broadcasts and types that kernels treat apart; all
// catalogue tests run them.
#include "layers/ops/maths/expression_cases.h"

#include "layers/ops/cases.h"

namespace moka {
namespace {

TensorType Key() { return {DType::kInt64, Shape{}, {}}; }

OpCase Unary(std::string name, std::string expression, double low = -3, double high = 3) {
  return {.name = std::move(name),
          .inputs = {Float32({2, 5, 3, 3})},
          .attributes = {{"exprs", Strings{std::move(expression)}}},
          .low = low,
          .high = high,
          .ranges = {},
          .min_gap = 1e-3};
}

OpCase ExpressionCasesBroadcast(std::string name, Strings expressions, std::vector<TensorType> inputs) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .attributes = {{"exprs", std::move(expressions)}},
          .low = 0.25,
          .high = 2,
          .ranges = {},
          .min_gap = 1e-4};
}

OpCase Update(std::string name, Strings expressions, int tensors, int scalars) {
  OpCase update;
  update.name = std::move(name);
  update.attributes.Set("exprs", std::move(expressions));
  update.low = 0.1;
  update.high = 0.9;
  for (int i = 0; i < tensors; ++i) update.inputs.push_back(Float32({6, 4, 3, 3}));
  for (int i = 0; i < scalars; ++i) update.inputs.push_back(Float32({}));
  return update;
}

OpCase SumExpressionCases(std::string name, std::string expression, Ints axes, std::vector<TensorType> inputs) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .attributes = {{"expr", std::move(expression)}, {"axes", std::move(axes)}},
          .ranges = {},
          .min_gap = 1e-4};
}

}  // namespace

std::vector<OpCase> PointwiseCases() {
  std::vector<OpCase> cases = {
      Unary("copy", "x0"),
      Unary("relu", "max(x0,0)"),
      Unary("leaky_relu", "select(gt(x0,0),x0,0.1*x0)"),
      Unary("relu6", "min(max(x0,0),2)"),
      Unary("sigmoid", "sigmoid(x0)"),
      Unary("tanh", "tanh(x0)"),
      Unary("elu", "select(gt(x0,0),x0,0.5*(exp(x0)-1))"),
      Unary("gelu", "0.5*x0*(1+erf(x0*0.7071067811865476))"),
      Unary("silu", "x0*sigmoid(x0)"),
      Unary("softplus", "max(x0,0)+log(1+exp(-abs(x0)))"),
      Unary("abs", "abs(x0)"),
      Unary("power", "pow(0.5*x0+2,1.7)"),
      Unary("square", "pow(x0,2)"),
      Unary("log", "log(x0)/0.6931471805599453", 0.1, 4),
      Unary("square_root", "sqrt(x0)", 0.1, 4),
      Unary("floor_and_sign", "x0*sign(x0)+0*floor(x0)"),
      ExpressionCasesBroadcast("add", {"x0+x1"}, {Float32({3, 4}), Float32({3, 4})}),
      ExpressionCasesBroadcast("maximum", {"max(x0,x1)"}, {Float32({3, 4}), Float32({3, 4})}),
      ExpressionCasesBroadcast("division", {"x0/x1"}, {Float32({3, 4}), Float32({3, 4})}),
      ExpressionCasesBroadcast("channel_scale", {"x0*x1+x2"},
                               {Float32({2, 5, 3, 3}), Float32({1, 5, 1, 1}), Float32({1, 5, 1, 1})}),
      ExpressionCasesBroadcast("sample_scale", {"x0*x1"}, {Float32({3, 2, 2, 2}), Float32({3, 1, 1, 1})}),
      ExpressionCasesBroadcast("gate", {"x0*x1"}, {Float32({2, 5, 3, 3}), Float32({2, 5, 1, 1})}),
      ExpressionCasesBroadcast("scalar_scale", {"x0*x1"}, {Float32({2, 3, 4}), Float32({})}),
      ExpressionCasesBroadcast("one_element_scale", {"x0*x1"}, {Float32({2, 3}), Float32({1, 1})}),
      ExpressionCasesBroadcast("scalars", {"x0*exp(x1)"}, {Float32({}), Float32({})}),
      ExpressionCasesBroadcast("outer_product", {"x0*x1"}, {Float32({4, 1}), Float32({1, 3})}),
      ExpressionCasesBroadcast("normalise", {"(x0-x1)/sqrt(x2+1e-5)*x3+x4"},
                               {Float32({2, 5, 3, 3}), Float32({1, 5, 1, 1}), Float32({1, 5, 1, 1}),
                                Float32({1, 5, 1, 1}), Float32({1, 5, 1, 1})}),
      ExpressionCasesBroadcast("general_power", {"pow(x0,x1)"}, {Float32({3, 4}), Float32({3, 4})}),
      ExpressionCasesBroadcast("two_results", {"x0*x1", "x0+tanh(x1)"}, {Float32({2, 6}), Float32({1, 6})}),
      Update("sgd_momentum", {"x0-(0.9*x2+x3*(x1+5e-4*x0))", "0.9*x2+x3*(x1+5e-4*x0)"}, 3, 1),
      Update("adam",
             {"x0-x4*(0.9*x2+0.1*x1)/(sqrt(0.999*x3+0.001*(x1*x1))+1e-8)", "0.9*x2+0.1*x1", "0.999*x3+0.001*(x1*x1)"},
             4, 1),
      Update("guarded", {"select(x2,x0-x1,x0)", "select(gt(x2,0.5),x1,x0)"}, 2, 1),
  };
  cases.push_back({.name = "dropout",
                   .inputs = {Float32({3, 7, 2, 2}), Key()},
                   .attributes = {{"exprs", Strings{"select(lt(rand(x1,5),0.4),0,x0/0.6)"}}},
                   .ranges = {{1, 0, 1e6}}});
  cases.push_back({.name = "uniform_noise",
                   .inputs = {Float32({37}), Key()},
                   .attributes = {{"exprs", Strings{"x0*rand(x1,0)", "rand(x1,1)"}}},
                   .ranges = {{1, 0, 1e6}}});
  return cases;
}

std::vector<OpCase> ReduceSumCases() {
  const TensorType x = Float32({3, 5, 2, 4});
  const TensorType channel = Float32({1, 5, 1, 1});
  return {SumExpressionCases("all", "x0", {0, 1, 2, 3}, {x}),
          SumExpressionCases("squared_norm", "x0*x0", {0, 1, 2, 3}, {x}),
          SumExpressionCases("absolute", "abs(x0)", {0, 1, 2, 3}, {x}),
          SumExpressionCases("bias_gradient", "x0", {0, 2, 3}, {x}),
          SumExpressionCases("scale_gradient", "x0*(x1-x2)", {0, 2, 3}, {x, x, channel}),
          SumExpressionCases("rows", "exp(x0)", {2, 3}, {x}),
          SumExpressionCases("last", "x0*x1", {1}, {Float32({6, 7}), Float32({6, 7})}),
          SumExpressionCases("first", "x0", {0}, {Float32({9, 33})}),
          SumExpressionCases("middle", "x0*x0", {1, 2}, {x}),
          SumExpressionCases("outer", "x0*x1", {0}, {Float32({4, 1}), Float32({1, 6})}),
          SumExpressionCases("scalar_factor", "x0*x1", {0, 1}, {Float32({4, 3}), Float32({})}),
          SumExpressionCases("copy", "x0", {}, {Float32({4, 3})}),
          SumExpressionCases("nothing", "tanh(x0)", {}, {Float32({4, 3})}),
          SumExpressionCases("repeated_only", "x0*x0", {1}, {channel, x})};
}

}  // namespace moka
