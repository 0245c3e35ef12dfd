// dx[n,c,i] = sum over the products of a convolution in which x[n,c,i] takes part, of dy * w: the gradient of
// convolution with respect to x, and the forward of Caffe's Deconvolution.
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

constexpr const char* kConvolutionBackwardDataName = "convolution_backward_data";

std::vector<TensorType> InferConvolutionBackwardData(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kConvolutionBackwardDataName, in, 2, 2);
  CheckFloat(kConvolutionBackwardDataName, "dy", in[0]);
  CheckSameDType(kConvolutionBackwardDataName, "dy", in[0], "weight", in[1]);
  const Shape dx = ShapeAttribute(kConvolutionBackwardDataName, attributes, "input_shape");
  CheckShape(kConvolutionBackwardDataName, "dy", in[0].shape,
             ConvolutionOutput(kConvolutionBackwardDataName, attributes, dx, in[1].shape),
             "the convolution's output for input_shape");
  return {PlainType(in[0].dtype, dx)};
}

void ConvolutionBackwardDataReference(const Attributes& attributes, std::span<const RefTensor> in,
                                      std::span<RefTensor> out) {
  const Shape& w = in[1].type.shape;
  std::ranges::fill(out[0].values, 0.0);
  VisitConvolution(ConvolutionGeometry(kConvolutionBackwardDataName, attributes, w), attributes.Int("groups"),
                   out[0].type.shape, w, in[0].type.shape, [&](int64_t i, int64_t j, int64_t o) {
                     out[0].values[static_cast<size_t>(i)] +=
                         in[0].values[static_cast<size_t>(o)] * in[1].values[static_cast<size_t>(j)];
                   });
}

// The op is linear in dy and in w; with g the gradient of its result, the roles of x and dy swap.
void ConvolutionBackwardDataGradient(GradientContext& c) {
  const ValueId g = c.dy(0);
  const Attributes geometry = Selected(c.attributes(), {"stride", "pad_begin", "pad_end", "dilation", "groups"});
  if (c.wants(0)) c.SetDx(0, c.b().Add1("convolution", {g, c.x(1)}, geometry));
  if (c.wants(1)) {
    const Attributes more{{"weight_shape", DimsOf(c.b().shape(c.x(1)))}, {"bias", false}};
    c.SetDx(1, c.b().Add1("convolution_backward_weights", {g, c.x(0)}, With(geometry, more)));
  }
}

Attributes WithInput(Attributes geometry, Ints shape) {
  geometry.Set("input_shape", std::move(shape));
  return geometry;
}

std::vector<OpCase> ConvolutionBackwardDataCases() {
  return {
      {"two_dimensions",
       {Float32({2, 4, 7, 6}), Float32({4, 3, 3, 3})},
       WithInput(ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}), {2, 3, 7, 6})},
      {"stride",
       {Float32({2, 4, 4, 3}), Float32({4, 3, 3, 3})},
       WithInput(ConvolutionCase({2, 2}, {1, 1}, {1, 1}, {1, 1}), {2, 3, 8, 6})},
      {"blocked_channels",
       {Float32({2, 32, 5, 5}), Float32({32, 16, 3, 3})},
       WithInput(ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}), {2, 16, 5, 5})},
      {"groups",
       {Float32({2, 6, 6, 6}), Float32({6, 2, 3, 3})},
       WithInput(ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2), {2, 4, 6, 6})},
      {"dilation_asymmetric",
       {Float32({1, 3, 4, 3}), Float32({3, 2, 3, 2})},
       WithInput(ConvolutionCase({2, 3}, {2, 0}, {1, 2}, {1, 2}), {1, 2, 7, 7})},
      {"one_dimension",
       {Float32({2, 4, 5}), Float32({4, 3, 5})},
       WithInput(ConvolutionCase({2}, {2}, {1}, {1}), {2, 3, 11})},
      {"three_dimensions",
       {Float32({1, 3, 3, 3, 4}), Float32({3, 2, 2, 2, 3})},
       WithInput(ConvolutionCase({1, 2, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}), {1, 2, 4, 6, 6})},
  };
}

}  // namespace

OpDef ConvolutionBackwardDataOp() {
  return {.name = kConvolutionBackwardDataName,
          .doc =
              "(dy [N,K,out..], w [K,C/groups,kernel..]) -> dx [N,C,in..]: a convolution's gradient of x, and Caffe's "
              "Deconvolution.",
          .attributes = JoinSpecs({ConvolutionAttributes(), {ShapeSpec("input_shape", "the full shape of dx")}}),
          .infer = InferConvolutionBackwardData,
          .reference = ConvolutionBackwardDataReference,
          .gradient = ConvolutionBackwardDataGradient,
          .by_image = EachImageAlone,
          .precision = Precision::kPrefer16,
          .flops = [](const Attributes&, std::span<const TensorType> in,
                      std::span<const TensorType>) { return ConvolutionFlops(in[1].shape, in[0].shape); },
          .cases = ConvolutionBackwardDataCases};
}

}  // namespace moka
