// Between real numbers and 8-bit integers: q = round(x / scale), saturated; x = q * scale. One scale for a tensor, or
// one for each index of its first axis (weights, one an output channel).
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/convolution/rounding.h"

namespace moka {
namespace {

void CheckScales(std::string_view op, const Attributes& attributes, const Shape& x) {
  const auto& scales = attributes.Get<Doubles>("scales");
  const bool one = scales.size() == 1;
  const bool each = x.rank() > 0 && static_cast<int64_t>(scales.size()) == x[0];
  if (!one && !each) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": ", scales.size(), " scales for ", x.ToString(),
                                           "; one, or one for each index of the first axis, is expected"));
  }
  for (const double scale : scales) {
    if (scale > 0 && std::isfinite(scale)) continue;
    throw Error(ErrorKind::kConfig, StrCat(op, ": a scale is ", scale, ", not above 0"));
  }
}

// The scale of an element of a tensor with `count` elements.
double ScaleAt(const Doubles& scales, size_t i, size_t count) {
  return scales[scales.size() == 1 ? 0 : i / (count / scales.size())];
}

std::vector<TensorType> InferQuantize(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("quantize", in, 1, 1);
  CheckFloat("quantize", "x", in[0]);
  CheckScales("quantize", attributes, in[0].shape);
  const TensorType y = PlainType(DTypeNamed("quantize", attributes.String("dtype")), in[0].shape);
  CheckInt8("quantize", "y", y);
  return {y};
}

void Quantize(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const auto& scales = attributes.Get<Doubles>("scales");
  for (size_t i = 0; i < in[0].values.size(); ++i) {
    out[0].values[i] = RoundTo(out[0].type.dtype, in[0].values[i] / ScaleAt(scales, i, in[0].values.size()));
  }
}

std::vector<TensorType> InferDequantize(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("dequantize", in, 1, 1);
  CheckInt8("dequantize", "x", in[0]);
  CheckScales("dequantize", attributes, in[0].shape);
  return {PlainType(DType::kFloat32, in[0].shape)};
}

void Dequantize(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const auto& scales = attributes.Get<Doubles>("scales");
  for (size_t i = 0; i < in[0].values.size(); ++i) {
    out[0].values[i] = in[0].values[i] * ScaleAt(scales, i, in[0].values.size());
  }
}

// Values whose quotients by the scale (a power of two) are whole: no rounding that float and double could do apart.
std::vector<OpCase> QuantizeCases() {
  const auto make = [](const char* name, Shape x, Doubles scales, const char* dtype) {
    return OpCase{.name = name,
                  .inputs = {{DType::kFloat32, x, {}}},
                  .attributes = {{"scales", std::move(scales)}, {"dtype", std::string(dtype)}},
                  .ranges = {{0, -40, 40}}};
  };
  return {make("picture", {2, 17, 5, 5}, {0.25}, "uint8"), make("signed", {2, 16, 3, 3}, {0.125}, "int8"),
          make("channels", {3, 4, 3, 3}, {0.5, 0.25, 2.0}, "int8"), make("vector", {7}, {1.0}, "uint8")};
}

std::vector<OpCase> DequantizeCases() {
  return {{.name = "picture",
           .inputs = {{DType::kUInt8, Shape{2, 17, 5, 5}, {}}},
           .attributes = {{"scales", Doubles{0.25}}},
           .ranges = {{0, 0, 255}}},
          {.name = "signed",
           .inputs = {{DType::kInt8, Shape{2, 16, 3, 3}, {}}},
           .attributes = {{"scales", Doubles{0.125}}},
           .ranges = {{0, -128, 127}}}};
}

}  // namespace

OpDef QuantizeOp() {
  return {.name = "quantize",
          .doc = "x -> round(x / scale) as 8-bit integers, halves to even, saturated.",
          .attributes = {{"scales", {}, "one scale, or one for each index of the first axis"},
                         {"dtype", {}, "uint8 or int8"}},
          .infer = InferQuantize,
          .reference = Quantize,
          .precision = Precision::kKeep32,
          .cases = QuantizeCases};
}

OpDef DequantizeOp() {
  return {.name = "dequantize",
          .doc = "x of 8-bit integers -> x * scale in float32.",
          .attributes = {{"scales", {}, "one scale, or one for each index of the first axis"}},
          .infer = InferDequantize,
          .reference = Dequantize,
          .precision = Precision::kKeep32,
          .cases = DequantizeCases};
}

}  // namespace moka
