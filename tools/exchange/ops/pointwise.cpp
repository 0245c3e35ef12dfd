// Formulas. Activations that ONNX has an op for are found by their text, which tells all that the op means; any other
// formula is written operation by operation, so that layers that are formulas need no row here.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "tools/exchange/ops/expression_writer.h"

namespace moka {
namespace {

// An activation over x0 with up to two numbers, $ and @.
struct Activation {
  const char* formula;
  const char* type;
  int64_t since = 11;               // the first opset that has it
  const char* attribute = nullptr;  // the attribute that $ is
  bool are_inputs = false;          // $ and @ are inputs
};

constexpr Activation kActivations[] = {
    {.formula = "max(x0,0)", .type = "Relu"},
    {.formula = "select(gt(x0,0),x0,$*x0)", .type = "LeakyRelu", .attribute = "alpha"},
    {.formula = "select(gt(x0,0),x0,$*(exp(x0)-1))", .type = "Elu", .attribute = "alpha"},
    {.formula = "min(max(x0,$),@)", .type = "Clip", .are_inputs = true},
    {.formula = "select(lt(x0,$),$,select(gt(x0,@),@,x0))", .type = "Clip", .are_inputs = true},
    {.formula = "select(lt(x0,@),max(x0,$),@)", .type = "Clip", .are_inputs = true},
    {.formula = "select(gt(x0,0),x0+log(1+exp(-x0)),log(1+exp(x0)))", .type = "Softplus"},
    {.formula = "x0*min(max(x0+3,0),6)/6", .type = "HardSwish", .since = 14},
    {.formula = "0.5*x0*(1+erf(x0*0.7071067811865476))", .type = "Gelu", .since = 20},
};

std::string Filled(std::string_view formula, double dollar, double at) {
  std::string text;
  for (const char c : formula) text += c == '$' ? ToText(dollar) : c == '@' ? ToText(at) : std::string(1, c);
  return text;
}

bool WriteIfIs(OnnxNode& n, const Expression& expression, const Activation& activation, double dollar, double at) {
  if (expression != Expression::Parse(Filled(activation.formula, dollar, at))) return false;
  std::vector<std::string> inputs = {n.In(0)};
  Attributes attributes;
  if (activation.attribute != nullptr) attributes.Set(activation.attribute, dollar);
  if (activation.are_inputs) inputs.insert(inputs.end(), {n.onnx().Scalar(dollar), n.onnx().Scalar(at)});
  n.Give(activation.type, inputs, attributes);
  return true;
}

// Whether the expression is an activation of ONNX, which is written then.
bool WriteActivation(OnnxNode& n, const Expression& expression) {
  std::vector<double> numbers;
  for (const Instruction& part : expression.instructions()) {
    if (part.op == ScalarOp::kConstant && !std::isnan(part.constant)) numbers.push_back(part.constant);
  }
  for (const Activation& activation : kActivations) {
    if (n.opset() < activation.since) continue;
    const std::string_view formula = activation.formula;
    const bool has_dollar = formula.find('$') != std::string_view::npos;
    const bool has_at = formula.find('@') != std::string_view::npos;
    const std::vector<double> one = {0};
    for (const double dollar : has_dollar ? numbers : one) {
      for (const double at : has_at ? numbers : one) {
        if (WriteIfIs(n, expression, activation, dollar, at)) return true;
      }
    }
  }
  return false;
}

// A slope for each channel, [1,C,1,..] here and [C,1,..] in ONNX.
bool WritePRelu(OnnxNode& n, const Expression& expression) {
  if (n.input_count() != 2 || expression != Expression::Parse("select(gt(x0,0),x0,x1*x0)")) return false;
  if (!n.onnx().constants().IsConstant(n.Input(1))) return false;
  const Shape slope = n.x(1);
  if (slope.rank() != n.x(0).rank() || slope.rank() < 2 || slope[0] != 1) return false;
  OnnxTensor tensor{.name = n.node().origin.layer + "/slope",
                    .dims = Ints(slope.dims().begin() + 1, slope.dims().end()),
                    .floats = n.onnx().constants().FloatsAt(n.Input(1))};
  n.Give("PRelu", {n.In(0), n.onnx().AddTensor(std::move(tensor))});
  return true;
}

void CheckInputs(const OnnxNode& n) {
  for (int i = 0; i < n.input_count(); ++i) {
    const TensorType& type = n.onnx().graph().type(n.Input(i));
    if (n.onnx().graph().value(n.Input(i)).name == "random_key") n.Refuse("numbers that are drawn in each run");
    if (type.dtype != DType::kFloat32) n.Refuse(StrCat("a formula of ", NameOf(type.dtype)));
  }
}

// Whether a part of the inputs gives a result of the whole shape: it is computed of those that it reads.
void CheckShape(const OnnxNode& n, const Expression& expression) {
  for (int i = 0; i < n.input_count(); ++i) {
    const bool is_whole = n.x(i) == n.y(0);
    if (is_whole && expression.UsesInput(i)) return;
  }
  for (int i = 0; i < n.input_count(); ++i) {
    if (!expression.UsesInput(i)) n.Refuse("a formula that repeats its result along an operand that it does not read");
  }
}

void WritePointwise(OnnxNode& n) {
  CheckInputs(n);
  const Expression expression = Expression::Parse(n.attributes().Get<Strings>("exprs"));
  const bool is_one = expression.results().size() == 1;
  if (is_one && n.input_count() == 1 && WriteActivation(n, expression)) return;
  if (is_one && WritePRelu(n, expression)) return;
  ExpressionWriter writer(n, expression);
  for (size_t r = 0; r < expression.results().size(); ++r) {
    const int32_t result = expression.results()[r];
    CheckShape(n, expression.Select(std::vector<int>{static_cast<int>(r)}));
    writer.Give(result, static_cast<int>(r));
  }
}

// Sums of a formula along axes that stay as dimensions of 1.
void WriteReduceSum(OnnxNode& n) {
  CheckInputs(n);
  const Expression expression = Expression::Parse(n.attributes().String("expr"));
  for (int i = 0; i < n.input_count(); ++i) {
    if (!expression.UsesInput(i)) n.Refuse("a sum of fewer operands than give its shape");
  }
  ExpressionWriter writer(n, expression);
  const std::string terms = writer.Value(expression.results()[0]);
  const Ints& axes = n.attributes().Get<Ints>("axes");
  if (axes.empty()) return n.Give("Identity", {terms});
  if (n.opset() >= 13) return n.Give("ReduceSum", {terms, n.List(axes)}, {{"keepdims", int64_t{1}}});
  n.Give("ReduceSum", {terms}, {{"axes", axes}, {"keepdims", int64_t{1}}});
}

}  // namespace

OnnxOp OnnxPointwise() { return {.op = "pointwise", .write = WritePointwise}; }
OnnxOp OnnxReduceSum() { return {.op = "reduce_sum", .write = WriteReduceSum}; }

}  // namespace moka
