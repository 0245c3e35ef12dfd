// A convolution of 8-bit integers: y = round(act(scale[k] * (sum x w + bias[k]) + sum_scale * summand)), where the sum
// is exact in 32 bits. With x = qx*sx, w = qw*sw[k] and y = qy*sy the scale is sx*sw[k]/sy, the bias is in units of
// sx*sw[k], and sum_scale is the summand's scale over sy (Jacob et al. 2018, arXiv 1712.05877, without zero points).
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/convolution/rounding.h"
#include "layers/ops/geometry.h"
#include "layers/ops/traits.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kConvolutionInt8Name = "convolution_int8";

std::vector<TensorType> InferConvolutionInt8(const Attributes& attributes, std::span<const TensorType> in) {
  const bool sum = attributes.Bool("sum");
  CheckInputCount(kConvolutionInt8Name, in, sum ? 4 : 3, sum ? 4 : 3);
  CheckInt8(kConvolutionInt8Name, "x", in[0]);
  if (in[1].dtype != DType::kInt8) {
    throw Error(ErrorKind::kConfig,
                StrCat(kConvolutionInt8Name, ": the weights must be int8, found ", in[1].ToString()));
  }
  CheckFloat(kConvolutionInt8Name, "bias", in[2]);
  CheckActivation(kConvolutionInt8Name, attributes);
  const Shape y = ConvolutionOutput(kConvolutionInt8Name, attributes, in[0].shape, in[1].shape);
  CheckShape(kConvolutionInt8Name, "bias", in[2].shape, Shape{in[1].shape[0]}, "one value an output");
  if (sum) CheckShape(kConvolutionInt8Name, "the summand", in[3].shape, y, "the output's shape");
  const auto scales = static_cast<int64_t>(attributes.Get<Doubles>("scales").size());
  if (scales != in[1].shape[0]) {
    throw Error(ErrorKind::kConfig,
                StrCat(kConvolutionInt8Name, ": ", scales, " scales for ", in[1].shape[0], " outputs"));
  }
  return {PlainType(DTypeNamed(kConvolutionInt8Name, attributes.String("dtype")), y)};
}

void ConvolutionInt8Reference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& w = in[1].type.shape;
  const Shape& y = out[0].type.shape;
  const auto& scales = attributes.Get<Doubles>("scales");
  std::ranges::fill(out[0].values, 0.0);
  VisitConvolution(ConvolutionGeometry(kConvolutionInt8Name, attributes, w), attributes.Int("groups"), in[0].type.shape,
                   w, y, [&](int64_t i, int64_t j, int64_t o) {
                     out[0].values[static_cast<size_t>(o)] +=
                         in[0].values[static_cast<size_t>(i)] * in[1].values[static_cast<size_t>(j)];
                   });
  VisitElements(y, [&](const Index& index, int64_t offset) {
    double& value = out[0].values[static_cast<size_t>(offset)];
    const auto k = static_cast<size_t>(index[1]);
    value = scales[k] * (value + in[2].values[k]);
    if (attributes.Bool("sum")) value += attributes.Float("sum_scale") * in[3].values[static_cast<size_t>(offset)];
    if (attributes.String("activation") == "relu") value = std::max(value, 0.0);
    value = RoundTo(out[0].type.dtype, value);
  });
}

// Scales are powers of two and everything else whole, so that halves are met exactly and rounded alike. Weights stay
// within 63, as quantised ones do on processors that sum pairs of products in 16 bits.
std::vector<OpCase> ConvolutionInt8Cases() {
  const auto make = [](const char* name, Shape x, Shape w, Attributes geometry, const char* dtype, bool relu,
                       std::optional<DType> summand) {
    OpCase c{.name = name,
             .inputs = {{DType::kUInt8, x, {}}, {DType::kInt8, w, {}}, {DType::kFloat32, Shape{w[0]}, {}}},
             .attributes = std::move(geometry),
             .ranges = {{0, 0, 200}, {1, -63, 63}, {2, -500, 500}}};
    Doubles scales;
    for (int64_t k = 0; k < w[0]; ++k) scales.push_back(k % 2 == 0 ? 1.0 / 256 : 1.0 / 512);
    c.attributes.Set("scales", scales);
    c.attributes.Set("dtype", std::string(dtype));
    c.attributes.Set("activation", std::string(relu ? "relu" : ""));
    if (!summand) return c;
    c.attributes.Set("sum", true);
    c.attributes.Set("sum_scale", 0.5);
    c.inputs.push_back({*summand, ConvolutionOutput(kConvolutionInt8Name, c.attributes, x, w), {}});
    c.ranges.push_back({3, *summand == DType::kUInt8 ? 0.0 : -100.0, 100});
    return c;
  };
  const Attributes same = ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1});
  const Attributes strided = ConvolutionCase({2, 2}, {0, 0}, {0, 0}, {1, 1});
  return {make("three", {2, 16, 6, 5}, {32, 16, 3, 3}, same, "uint8", true, {}),
          make("odd_channels", {1, 7, 5, 5}, {9, 7, 3, 3}, same, "int8", false, {}),
          make("pointwise_stride", {2, 32, 7, 7}, {16, 32, 1, 1}, strided, "uint8", true, {}),
          make("float_result", {2, 16, 6, 5}, {32, 16, 3, 3}, same, "float32", false, {}),
          make("sum", {2, 16, 5, 5}, {32, 16, 3, 3}, same, "uint8", true, DType::kUInt8),
          make("signed_sum", {2, 16, 5, 5}, {32, 16, 3, 3}, same, "uint8", true, DType::kInt8),
          make("groups", {2, 16, 5, 5}, {32, 8, 3, 3}, ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2), "uint8",
               true, {})};
}

}  // namespace

OpDef ConvolutionInt8Op() {
  return {.name = kConvolutionInt8Name,
          .doc = "(x [N,C,in..] of 8 bits, w [K,C/groups,kernel..] int8, bias [K][, summand like y]) -> y [N,K,out..].",
          .attributes = JoinSpecs({ConvolutionAttributes(),
                                   {{"scales", {}, "the factor of each output"},
                                    {"dtype", {}, "the result's type: uint8, int8 (rounded, saturated) or float32"},
                                    {"activation", std::string(), "\"\" or \"relu\", applied last"},
                                    {"sum", false, "whether the last input is added before the activation"},
                                    {"sum_scale", 1.0, "the summand's factor"}}}),
          .infer = InferConvolutionInt8,
          .reference = ConvolutionInt8Reference,
          .may_overwrite = [](const Attributes& attributes, int input,
                              int) { return input == 3 && attributes.Bool("sum"); },
          .by_image = EachImageAlone,
          .precision = Precision::kKeep32,
          .on_host = "products of 8-bit integers are made for CPUs",
          .flops = [](const Attributes&, std::span<const TensorType> in,
                      std::span<const TensorType> out) { return ConvolutionFlops(in[1].shape, out[0].shape); },
          .cases = ConvolutionInt8Cases};
}

}  // namespace moka
