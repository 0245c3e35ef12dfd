// dw[k,c,j] = sum over the products of a convolution in which w[k,c,j] takes part, of x * dy; db[k] = sum of dy.
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/gradients.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kConvolutionBackwardWeightsName = "convolution_backward_weights";

std::vector<TensorType> InferConvolutionBackwardWeights(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kConvolutionBackwardWeightsName, in, 2, 2);
  CheckFloat(kConvolutionBackwardWeightsName, "x", in[0]);
  CheckSameDType(kConvolutionBackwardWeightsName, "x", in[0], "dy", in[1]);
  const Shape dw = ShapeAttribute(kConvolutionBackwardWeightsName, attributes, "weight_shape");
  CheckShape(kConvolutionBackwardWeightsName, "dy", in[1].shape,
             ConvolutionOutput(kConvolutionBackwardWeightsName, attributes, in[0].shape, dw),
             "the convolution's output for weight_shape");
  std::vector<TensorType> out = {PlainType(in[0].dtype, dw)};
  if (attributes.Bool("bias")) out.push_back(PlainType(in[0].dtype, Shape{dw[0]}));
  return out;
}

void ConvolutionBackwardWeightsReference(const Attributes& attributes, std::span<const RefTensor> in,
                                         std::span<RefTensor> out) {
  const Shape& w = out[0].type.shape;
  for (RefTensor& o : out) std::ranges::fill(o.values, 0.0);
  VisitConvolution(ConvolutionGeometry(kConvolutionBackwardWeightsName, attributes, w), attributes.Int("groups"),
                   in[0].type.shape, w, in[1].type.shape, [&](int64_t i, int64_t j, int64_t o) {
                     out[0].values[static_cast<size_t>(j)] +=
                         in[0].values[static_cast<size_t>(i)] * in[1].values[static_cast<size_t>(o)];
                   });
  if (!attributes.Bool("bias")) return;
  VisitElements(in[1].type.shape, [&](const Index& index, int64_t offset) {
    out[1].values[static_cast<size_t>(index[1])] += in[1].values[static_cast<size_t>(offset)];
  });
}

// Linear in x and in dy; g is the gradient of dw, h that of db.
void ConvolutionBackwardWeightsGradient(GradientContext& c) {
  const ValueId g = c.dy(0);
  const ValueId h = c.attributes().Bool("bias") ? c.dy(1) : kNoId;
  const Attributes geometry = Selected(c.attributes(), {"stride", "pad_begin", "pad_end", "dilation", "groups"});
  if (c.wants(0) && g != kNoId) {
    const Attributes shape{{"input_shape", DimsOf(c.b().shape(c.x(0)))}};
    c.SetDx(0, c.b().Add1("convolution_backward_data", {c.x(1), g}, With(geometry, shape)));
  }
  if (!c.wants(1)) return;
  if (g != kNoId) {
    std::vector<ValueId> inputs = {c.x(0), g};
    if (h != kNoId) inputs.push_back(h);
    c.SetDx(1, c.b().Add1("convolution", inputs, geometry));
  } else if (h != kNoId) {
    Shape channel;
    const Shape& y = c.b().shape(c.x(1));
    for (int i = 0; i < y.rank(); ++i) channel = channel.Inserted(i, i == 1 ? y[1] : 1);
    c.SetDx(1, c.b().Add1("expand", {c.b().Reshape(h, channel)}, {{"shape", DimsOf(y)}}));
  }
}

Attributes WithWeight(Attributes geometry, Ints shape, bool bias) {
  geometry.Set("weight_shape", std::move(shape));
  geometry.Set("bias", bias);
  return geometry;
}

std::vector<OpCase> ConvolutionBackwardWeightsCases() {
  return {
      {"two_dimensions",
       {Float32({2, 3, 7, 6}), Float32({2, 4, 7, 6})},
       WithWeight(ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}), {4, 3, 3, 3}, false)},
      {"bias",
       {Float32({2, 3, 8, 6}), Float32({2, 4, 4, 3})},
       WithWeight(ConvolutionCase({2, 2}, {1, 1}, {1, 1}, {1, 1}), {4, 3, 3, 3}, true)},
      {"blocked_channels",
       {Float32({2, 16, 5, 5}), Float32({2, 32, 5, 5})},
       WithWeight(ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}), {32, 16, 3, 3}, true)},
      {"groups",
       {Float32({2, 4, 6, 6}), Float32({2, 6, 6, 6})},
       WithWeight(ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2), {6, 2, 3, 3}, true)},
      {"dilation_asymmetric",
       {Float32({1, 2, 7, 7}), Float32({1, 3, 4, 3})},
       WithWeight(ConvolutionCase({2, 3}, {2, 0}, {1, 2}, {1, 2}), {3, 2, 3, 2}, false)},
      {"one_dimension",
       {Float32({2, 3, 11}), Float32({2, 4, 5})},
       WithWeight(ConvolutionCase({2}, {2}, {1}, {1}), {4, 3, 5}, true)},
      {"three_dimensions",
       {Float32({1, 2, 4, 6, 6}), Float32({1, 3, 3, 3, 4})},
       WithWeight(ConvolutionCase({1, 2, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}), {3, 2, 2, 2, 3}, true)},
  };
}

}  // namespace

OpDef ConvolutionBackwardWeightsOp() {
  return {
      .name = kConvolutionBackwardWeightsName,
      .doc =
          "(x [N,C,in..], dy [N,K,out..]) -> dw [K,C/groups,kernel..][, db [K]]: a convolution's gradients of w and "
          "bias.",
      .attributes = JoinSpecs({ConvolutionAttributes(),
                               {ShapeSpec("weight_shape", "the shape of dw"), {"bias", {}, "whether db is wanted"}}}),
      .infer = InferConvolutionBackwardWeights,
      .reference = ConvolutionBackwardWeightsReference,
      .gradient = ConvolutionBackwardWeightsGradient,
      .precision = Precision::kPrefer16,
      .flops = [](const Attributes&, std::span<const TensorType> in,
                  std::span<const TensorType> out) { return ConvolutionFlops(out[0].shape, in[1].shape); },
      .cases = ConvolutionBackwardWeightsCases};
}

}  // namespace moka
