// Functions of one value. Those that Moka has a layer for become it, the others a Formula.
#include <cmath>
#include <limits>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/layer_making.h"

namespace moka {
namespace {

struct Plain {
  const char* type;   // of ONNX
  const char* layer;  // of Moka, without fields
};
constexpr Plain kLayers[] = {{"Relu", "ReLU"},  {"Sigmoid", "Sigmoid"},    {"Tanh", "TanH"},
                             {"Abs", "AbsVal"}, {"Softplus", "BNLL"},      {"Exp", "Exp"},
                             {"Log", "Log"},    {"HardSwish", "HardSwish"}};
constexpr Plain kFormulas[] = {{"Neg", "-x0"},          {"Sqrt", "sqrt(x0)"},
                               {"Reciprocal", "1/x0"},  {"Floor", "floor(x0)"},
                               {"Ceil", "-floor(-x0)"}, {"Sign", "sign(x0)"},
                               {"Erf", "erf(x0)"},      {"Softsign", "x0/(1+abs(x0))"},
                               {"Not", "eq(x0,0)"},     {"Mish", "x0*tanh(log(1+exp(x0)))"}};

void ReadPlain(ImportNode& n) {
  for (const Plain& plain : kLayers) {
    if (n.proto().op_type() == plain.type) return n.Give(LayerOf(plain.layer), {n.In(0)});
  }
  for (const Plain& plain : kFormulas) {
    if (n.proto().op_type() == plain.type) return n.Give(FormulaOf(plain.layer), {n.In(0)});
  }
  n.Refuse("it is no function of one value");
}

void ReadNot(ImportNode& n) {
  ReadPlain(n);
  n.MarkWhole(0);
}

void ReadLeakyRelu(ImportNode& n) {
  LayerParameter layer = LayerOf("ReLU");
  layer.mutable_relu_param()->set_negative_slope(static_cast<float>(n.attributes().Float("alpha", 0.01)));
  n.Give(layer, {n.In(0)});
}

void ReadElu(ImportNode& n) {
  LayerParameter layer = LayerOf("ELU");
  layer.mutable_elu_param()->set_alpha(static_cast<float>(n.attributes().Float("alpha", 1)));
  n.Give(layer, {n.In(0)});
}

void ReadSelu(ImportNode& n) {
  const std::string alpha = NumberText(static_cast<float>(n.attributes().Float("alpha", 1.67326319217681884765625)));
  const std::string gamma = NumberText(static_cast<float>(n.attributes().Float("gamma", 1.05070102214813232421875)));
  n.Give(FormulaOf(StrCat(gamma, "*select(gt(x0,0),x0,", alpha, "*(exp(x0)-1))")), {n.In(0)});
}

void ReadHardSigmoid(ImportNode& n) {
  const std::string alpha = NumberText(static_cast<float>(n.attributes().Float("alpha", 0.2)));
  const std::string beta = NumberText(static_cast<float>(n.attributes().Float("beta", 0.5)));
  n.Give(FormulaOf(StrCat("min(max(", alpha, "*x0+", beta, ",0),1)")), {n.In(0)});
}

void ReadGelu(ImportNode& n) {
  const std::string form = n.attributes().Text("approximate", "none");
  if (form == "none") return n.Give(LayerOf("GELU"), {n.In(0)});
  if (form != "tanh") n.Refuse(StrCat("its approximation is \"", Printable(form), "\""));
  n.Give(FormulaOf("0.5*x0*(1+tanh(0.7978845608028654*(x0+0.044715*x0*x0*x0)))"), {n.In(0)});
}

void ReadSwish(ImportNode& n) {
  LayerParameter layer = LayerOf("Swish");
  const auto alpha = static_cast<float>(n.attributes().Float("alpha", 1));
  if (alpha != 1) layer.mutable_swish_param()->set_beta(alpha);
  n.Give(layer, {n.In(0)});
}

// A slope, or one a channel: [C,1,..].
void ReadPRelu(ImportNode& n) {
  const OnnxConstant slope = n.Constant(1);
  const Ints& x = n.x(0).dims;
  LayerParameter layer = LayerOf("PReLU");
  if (ScalarOf(slope)) {
    layer.mutable_prelu_param()->set_channel_shared(true);
    return n.Give(layer, {n.In(0)}, {{Shape{}, {*ScalarOf(slope)}}});
  }
  const std::optional<OperandAxes> axes = slope == nullptr || slope->is_whole ? std::nullopt : OperandAxesOf(x, *slope);
  if (axes && axes->axis == 1 && axes->count == 1) return n.Give(layer, {n.In(0)}, {{axes->shape, slope->floats}});
  n.Give(FormulaOf("select(gt(x0,0),x0,x1*x0)"), {n.In(0), n.In(1)});
}

// A bound is an input, or left out.
std::optional<float> BoundOf(const ImportNode& n, int i) {
  if (!n.Has(i)) return std::nullopt;
  const std::optional<float> bound = ScalarOf(n.Constant(i));
  if (!bound) n.Refuse("a bound of it is computed");
  if (std::isnan(*bound)) n.Refuse("a bound of it is no number");
  // Exporters write the ends of the type for a bound that is not there.
  if (std::abs(*bound) >= std::numeric_limits<float>::max()) return std::nullopt;
  return bound;
}

void ReadClip(ImportNode& n) {
  const std::optional<float> low = BoundOf(n, 1);
  const std::optional<float> high = BoundOf(n, 2);
  if (low == 0.0F && !high) return n.Give(LayerOf("ReLU"), {n.In(0)});
  if (low == 0.0F && high == 6.0F) return n.Give(LayerOf("ReLU6"), {n.In(0)});
  if (low && high) {
    LayerParameter layer = LayerOf("Clip");
    layer.mutable_clip_param()->set_min(*low);
    layer.mutable_clip_param()->set_max(*high);
    return n.Give(layer, {n.In(0)});
  }
  if (low) return n.Give(FormulaOf(StrCat("max(x0,", NumberText(*low), ")")), {n.In(0)});
  if (high) return n.Give(FormulaOf(StrCat("min(x0,", NumberText(*high), ")")), {n.In(0)});
  GiveBlob(n, n.In(0));
}

}  // namespace

OnnxImportOp ImportPlain() {
  return {.types = {"Relu", "Sigmoid", "Tanh", "Abs", "Softplus", "Exp", "Log", "HardSwish", "Neg", "Sqrt",
                    "Reciprocal", "Floor", "Ceil", "Sign", "Erf", "Softsign", "Mish"},
          .read = ReadPlain};
}
OnnxImportOp ImportNot() { return {.types = {"Not"}, .read = ReadNot, .takes_whole = true}; }
OnnxImportOp ImportLeakyRelu() { return {.types = {"LeakyRelu"}, .read = ReadLeakyRelu}; }
OnnxImportOp ImportElu() { return {.types = {"Elu"}, .read = ReadElu}; }
OnnxImportOp ImportSelu() { return {.types = {"Selu"}, .read = ReadSelu}; }
OnnxImportOp ImportHardSigmoid() { return {.types = {"HardSigmoid"}, .read = ReadHardSigmoid}; }
OnnxImportOp ImportGelu() { return {.types = {"Gelu"}, .read = ReadGelu}; }
OnnxImportOp ImportSwish() { return {.types = {"Swish"}, .read = ReadSwish}; }
OnnxImportOp ImportPRelu() { return {.types = {"PRelu"}, .read = ReadPRelu}; }
OnnxImportOp ImportClip() { return {.types = {"Clip"}, .read = ReadClip}; }

}  // namespace moka
