// 8-bit integers as pairs of QuantizeLinear and DequantizeLinear around ops of real numbers (the QDQ format), which
// runtimes turn into products of integers. Moka's scales are kept to the bit of a float, and zero points are 0: uint8
// where nothing is negative, int8 for weights and signed sums. A convolution's sum with another value is an Add in
// front of the rounding, as Moka rounds once. Biases are int32 in units of the scales of input and weights, where all
// of them fit.
#include "tools/exchange/ops/quantization.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/text.h"
#include "graph/layer_names.h"
#include "graph/op.h"
#include "tools/exchange/onnx_export.h"
#include "tools/exchange/ops/convolution.h"

namespace moka {
namespace {

const Node& ProducerOf(const Graph& graph, ValueId value) { return graph.node(graph.value(value).producer); }

const Doubles& WeightScalesOf(const Graph& graph, const Node& convolution) {
  return ProducerOf(graph, convolution.inputs[1]).attributes.Get<Doubles>("scales");
}

// The scale of a value of 8 bits: that of the node "quantize" that it came from, times what each convolution on the way
// makes of it (scales = x's * weights' / y's).
double ScaleOf(const Graph& graph, ValueId value) {
  double factor = 1;
  for (;;) {
    const Node& node = ProducerOf(graph, value);
    if (node.op->name == "quantize") return factor * node.attributes.Get<Doubles>("scales")[0];
    if (node.op->name == "convolution_int8")
      factor *= WeightScalesOf(graph, node)[0] / node.attributes.Get<Doubles>("scales")[0];
    value = node.inputs[0];
  }
}

// [] for one scale, [K] for one a channel.
Ints DimsOfScales(const Doubles& scales) { return scales.size() == 1 ? Ints{} : Ints{std::ssize(scales)}; }

std::string AddScales(OnnxNode& n, const Doubles& scales) {
  return n.onnx().AddTensor({.name = n.NameWith("scale"),
                             .dims = DimsOfScales(scales),
                             .floats = std::vector<float>(scales.begin(), scales.end())});
}

std::string AddZeros(OnnxNode& n, DType dtype, const Doubles& scales) {
  return n.onnx().AddTensor({.name = n.NameWith("zero_point"),
                             .dims = DimsOfScales(scales),
                             .ints = Ints(scales.size(), 0),
                             .is_whole = true,
                             .stored = dtype});
}

// The inputs of a node between real numbers and integers of this type.
std::vector<std::string> Linear(OnnxNode& n, const std::string& value, DType dtype, const Doubles& scales) {
  return {value, AddScales(n, scales), AddZeros(n, dtype, scales)};
}

DType ElementOf(const OnnxNode& n, ValueId value) { return n.onnx().graph().type(value).dtype; }

// The weights [K,C/groups,kernel..], with a scale for each of K. Their real numbers are called LAYER.weight, so that an
// importer finds the layer's name.
std::string ReadWeights(OnnxNode& n) {
  const Shape shape = n.x(1);
  OnnxTensor weights{.name = n.NameWith("weights"), .dims = DimsOf(shape), .is_whole = true, .stored = DType::kInt8};
  for (const double value : n.onnx().constants().At(n.Input(1)).values)
    weights.ints.push_back(static_cast<int64_t>(value));
  const std::string integers = n.onnx().AddTensor(std::move(weights));
  std::string reals = n.onnx().Unique(StrCat(LayersOf(n.node().origin.layer).front(), ".weight"));
  n.onnx().AddNode("DequantizeLinear", reals,
                   Linear(n, integers, DType::kInt8, WeightScalesOf(n.onnx().graph(), n.node())), {reals},
                   {{"axis", int64_t{0}}});
  return reals;
}

// The bias [K], which the node has in units of x's scale times that of its channel's weights.
std::string ReadBias(OnnxNode& n, double x_scale) {
  Doubles units = WeightScalesOf(n.onnx().graph(), n.node());
  for (double& unit : units) unit *= x_scale;
  if (!n.onnx().constants().IsConstant(n.Input(2))) n.Refuse("its bias is computed from what the net is given");
  const std::vector<double>& values = n.onnx().constants().At(n.Input(2)).values;
  const Ints dims = {std::ssize(values)};
  const auto fits = [](double value) { return std::abs(value) < std::numeric_limits<int32_t>::max(); };
  if (!std::ranges::all_of(values, fits)) {
    OnnxTensor reals{.name = n.NameWith("bias"), .dims = dims, .floats = {}};
    for (size_t k = 0; k < values.size(); ++k) reals.floats.push_back(static_cast<float>(values[k] * units[k]));
    return n.onnx().AddTensor(std::move(reals));
  }
  OnnxTensor bias{.name = n.NameWith("bias"), .dims = dims, .is_whole = true, .stored = DType::kInt32};
  for (const double value : values) bias.ints.push_back(std::llrint(value));
  return n.Add("DequantizeLinear", Linear(n, n.onnx().AddTensor(std::move(bias)), DType::kInt32, units),
               {{"axis", int64_t{0}}});
}

void WriteConvolutionInt8(OnnxNode& n) {
  if (n.opset() < kFirstInt8Opset) n.Refuse("8-bit weights have a scale a channel, which its opset does not know");
  const double x_scale = ScaleOf(n.onnx().graph(), n.Input(0));
  const DType to = ElementOf(n, n.node().outputs[0]);
  ConvolutionWriter writer(n, {ReadReals(n, 0), ReadWeights(n), ReadBias(n, x_scale)});
  if (n.attributes().Bool("sum")) writer.Sum(ReadReals(n, 3));
  if (to == DType::kFloat32) return writer.Give();
  GiveIntegers(n, writer.Add());
}

void WriteQuantize(OnnxNode& n) {
  n.Give("QuantizeLinear",
         Linear(n, n.In(0), ElementOf(n, n.node().outputs[0]), n.attributes().Get<Doubles>("scales")));
}

void WriteDequantize(OnnxNode& n) {
  n.Give("DequantizeLinear", Linear(n, n.In(0), ElementOf(n, n.Input(0)), n.attributes().Get<Doubles>("scales")));
}

}  // namespace

std::string ReadReals(OnnxNode& n, int i) {
  const DType dtype = ElementOf(n, n.Input(i));
  if (dtype == DType::kFloat32) return n.In(i);
  return n.Add("DequantizeLinear", Linear(n, n.In(i), dtype, {ScaleOf(n.onnx().graph(), n.Input(i))}));
}

void GiveIntegers(OnnxNode& n, const std::string& reals) {
  const ValueId y = n.node().outputs[0];
  n.Give("QuantizeLinear", Linear(n, reals, ElementOf(n, y), {ScaleOf(n.onnx().graph(), y)}));
}

OnnxOp OnnxConvolutionInt8() { return {.op = "convolution_int8", .write = WriteConvolutionInt8}; }
OnnxOp OnnxQuantize() { return {.op = "quantize", .write = WriteQuantize}; }
OnnxOp OnnxDequantize() { return {.op = "dequantize", .write = WriteDequantize}; }

}  // namespace moka
