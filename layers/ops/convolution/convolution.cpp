// y[n,k,o] = bias[k] + sum_{c,j} x[n,c,o*stride - pad + j*dilation] * w[k,c,j]: cross-correlation, as everywhere in
// deep learning. Optionally + a last input, and a ReLU, when the fuse pass has absorbed them.
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/gradients.h"
#include "layers/ops/traits.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

bool HasBias(const Attributes& attributes, size_t inputs) { return inputs == (attributes.Bool("sum") ? 4U : 3U); }

std::vector<TensorType> InferConvolution(const Attributes& attributes, std::span<const TensorType> in) {
  const size_t sum = attributes.Bool("sum") ? 1 : 0;
  CheckInputCount("convolution", in, 2 + sum, 3 + sum);
  CheckFloat("convolution", "x", in[0]);
  CheckSameDType("convolution", "x", in[0], "weight", in[1]);
  CheckActivation("convolution", attributes);
  const Shape y = ConvolutionOutput("convolution", attributes, in[0].shape, in[1].shape);
  if (HasBias(attributes, in.size())) {
    CheckFloat("convolution", "bias", in[2]);
    CheckShape("convolution", "bias", in[2].shape, Shape{in[1].shape[0]}, "one value an output");
  }
  if (sum == 1) CheckShape("convolution", "the summand", in.back().shape, y, "the output's shape");
  return {PlainType(in[0].dtype, y)};
}

void ConvolutionReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& w = in[1].type.shape;
  const Shape& y = out[0].type.shape;
  std::ranges::fill(out[0].values, 0.0);
  VisitConvolution(ConvolutionGeometry("convolution", attributes, w), attributes.Int("groups"), in[0].type.shape, w, y,
                   [&](int64_t i, int64_t j, int64_t o) {
                     out[0].values[static_cast<size_t>(o)] +=
                         in[0].values[static_cast<size_t>(i)] * in[1].values[static_cast<size_t>(j)];
                   });
  const bool relu = attributes.String("activation") == "relu";
  VisitElements(y, [&](const Index& index, int64_t offset) {
    double& value = out[0].values[static_cast<size_t>(offset)];
    if (HasBias(attributes, in.size())) value += in[2].values[static_cast<size_t>(index[1])];
    if (attributes.Bool("sum")) value += in.back().values[static_cast<size_t>(offset)];
    if (relu) value = std::max(value, 0.0);
  });
}

void ConvolutionGradient(GradientContext& c) {
  const Attributes& attributes = c.attributes();
  const bool has_bias = HasBias(attributes, static_cast<size_t>(c.input_count()));
  const ValueId dy = attributes.String("activation") == "relu" ? ReluMasked(c.b(), c.dy(0), c.y(0)) : c.dy(0);
  const Attributes geometry = Selected(attributes, {"stride", "pad_begin", "pad_end", "dilation", "groups"});
  if (c.wants(0)) {
    const Attributes shape{{"input_shape", DimsOf(c.b().shape(c.x(0)))}};
    c.SetDx(0, c.b().Add1("convolution_backward_data", {dy, c.x(1)}, With(geometry, shape)));
  }
  const bool wants_bias = has_bias && c.wants(2);
  if (c.wants(1)) {
    const Attributes more{{"weight_shape", DimsOf(c.b().shape(c.x(1)))}, {"bias", wants_bias}};
    const auto dw = c.b().Add("convolution_backward_weights", {c.x(0), dy}, With(geometry, more));
    c.SetDx(1, dw[0]);
    if (wants_bias) c.SetDx(2, dw[1]);
  } else if (wants_bias) {
    c.SetDx(2, SumAllBut(c.b(), dy, 1));
  }
  const int last = c.input_count() - 1;
  if (attributes.Bool("sum") && c.wants(last)) c.SetDx(last, dy);
}

std::vector<OpCase> ConvolutionCases() {
  const Attributes relu{{"activation", std::string("relu")}};
  const Attributes sum{{"sum", true}};
  const auto plain = ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1});
  return {
      {"two_dimensions", {Float32({2, 3, 7, 6}), Float32({4, 3, 3, 3})}, plain},
      {"bias", {Float32({2, 3, 5, 5}), Float32({4, 3, 3, 3}), Float32({4})}, plain},
      {"pointwise_stride",
       {Float32({2, 16, 7, 7}), Float32({32, 16, 1, 1})},
       ConvolutionCase({2, 2}, {0, 0}, {0, 0}, {1, 1})},
      {"odd_channels", {Float32({1, 17, 5, 5}), Float32({19, 17, 3, 3}), Float32({19})}, plain},
      {"groups",
       {Float32({2, 4, 6, 6}), Float32({6, 2, 3, 3}), Float32({6})},
       ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2)},
      {"depthwise", {Float32({2, 5, 6, 6}), Float32({5, 1, 3, 3})}, ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 5)},
      {"dilation", {Float32({1, 2, 9, 9}), Float32({3, 2, 3, 3})}, ConvolutionCase({1, 1}, {2, 2}, {2, 2}, {2, 2})},
      {"asymmetric", {Float32({2, 2, 7, 8}), Float32({3, 2, 3, 2})}, ConvolutionCase({2, 3}, {2, 0}, {1, 3}, {1, 2})},
      {"one_dimension", {Float32({2, 3, 11}), Float32({4, 3, 5}), Float32({4})}, ConvolutionCase({2}, {2}, {1}, {1})},
      {"three_dimensions",
       {Float32({1, 2, 4, 5, 6}), Float32({3, 2, 2, 3, 3}), Float32({3})},
       ConvolutionCase({1, 2, 1}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1})},
      {"relu", {Float32({2, 3, 5, 5}), Float32({4, 3, 3, 3}), Float32({4})}, With(plain, relu)},
      {"sum_relu",
       {Float32({2, 3, 5, 5}), Float32({4, 3, 3, 3}), Float32({4}), Float32({2, 4, 5, 5})},
       With(With(plain, sum), relu)},
      {"sum_without_bias", {Float32({2, 3, 5, 5}), Float32({4, 3, 3, 3}), Float32({2, 4, 5, 5})}, With(plain, sum)},
  };
}

}  // namespace

OpDef ConvolutionOp() {
  return {
      .name = "convolution",
      .doc =
          "(x [N,C,in..], w [K,C/groups,kernel..][, bias [K]][, summand like y]) -> y [N,K,out..]. The output size "
          "is rounded down.",
      .attributes = JoinSpecs({ConvolutionAttributes(),
                               {{"activation", std::string(), "\"\" or \"relu\", applied last"},
                                {"sum", false, "whether the last input is added before the activation"},
                                {"keeps_summand", false, "whether the result may not be written over it"}}}),
      .infer = InferConvolution,
      .reference = ConvolutionReference,
      .gradient = ConvolutionGradient,
      // The summand is the last input; a bias in its place has another shape, which the planner tells apart.
      .may_overwrite = [](const Attributes& attributes, int input,
                          int) { return input >= 2 && attributes.Bool("sum") && !attributes.Bool("keeps_summand"); },
      .by_image = EachImageAlone,
      .precision = Precision::kPrefer16,
      .flops = [](const Attributes&, std::span<const TensorType> in,
                  std::span<const TensorType> out) { return ConvolutionFlops(in[1].shape, out[0].shape); },
      .cases = ConvolutionCases};
}

}  // namespace moka
