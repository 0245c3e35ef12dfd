// The gradient g that a batch norm wants of the convolution behind it, with its sums: convolution_backward_data's dx,
// plus what reaches the same values another way, 0 where the ReLU between the two had nothing pass. With g [N,C,in..]
// come the sums of g and of g * x a channel, x being the batch norm's input, of which batch_norm_backward_apply makes
// its gradients. On GPUs, where that costs less while g is written than a sweep that reads it again. A kernel may sum
// in float, and what is made of the sums is the less exact the further a channel's mean of x is from 0 beside its
// deviation.
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kConvolutionBackwardDataSumsName = "convolution_backward_data_sums";

std::vector<TensorType> InferConvolutionBackwardDataSums(const Attributes& attributes, std::span<const TensorType> in) {
  const bool has_summand = attributes.Bool("sum");
  const size_t count = 3 + (has_summand ? 1U : 0U) + (attributes.Bool("mask") ? 1U : 0U);
  CheckInputCount(kConvolutionBackwardDataSumsName, in, count, count);
  CheckFloat(kConvolutionBackwardDataSumsName, "dy", in[0]);
  for (size_t i = 1; i < count; ++i) {
    const char* name = i == 1 ? "weight" : i == 2 ? "x" : i == 3 && has_summand ? "z" : "y";
    CheckSameDType(kConvolutionBackwardDataSumsName, "dy", in[0], name, in[i]);
    if (i > 2) CheckShape(kConvolutionBackwardDataSumsName, name, in[i].shape, in[2].shape, "x's shape");
  }
  CheckShape(kConvolutionBackwardDataSumsName, "dy", in[0].shape,
             ConvolutionOutput(kConvolutionBackwardDataSumsName, attributes, in[2].shape, in[1].shape),
             "the convolution's output for x");
  const TensorType sums = PlainType(StatisticsType(in[0].dtype), Shape{in[2].shape[1]});
  return {PlainType(in[0].dtype, in[2].shape), sums, sums};
}

void ConvolutionBackwardDataSumsReference(const Attributes& attributes, std::span<const RefTensor> in,
                                          std::span<RefTensor> out) {
  std::vector<double>& g = out[0].values;
  const Shape& w = in[1].type.shape;
  if (attributes.Bool("sum")) {
    g = in[3].values;
  } else {
    std::ranges::fill(g, 0.0);
  }
  VisitConvolution(ConvolutionGeometry(kConvolutionBackwardDataSumsName, attributes, w), attributes.Int("groups"),
                   out[0].type.shape, w, in[0].type.shape, [&](int64_t i, int64_t j, int64_t o) {
                     g[static_cast<size_t>(i)] +=
                         in[0].values[static_cast<size_t>(o)] * in[1].values[static_cast<size_t>(j)];
                   });
  for (size_t k = 1; k < 3; ++k) std::ranges::fill(out[k].values, 0.0);
  VisitElements(out[0].type.shape, [&](const Index& index, int64_t offset) {
    const auto i = static_cast<size_t>(offset);
    const auto c = static_cast<size_t>(index[1]);
    if (attributes.Bool("mask") && !(in.back().values[i] > 0)) g[i] = 0;
    out[1].values[c] += g[i];
    out[2].values[c] += g[i] * in[2].values[i];
  });
}

std::vector<OpCase> ConvolutionBackwardDataSumsCases() {
  const auto full = [](const Shape& shape) { return TensorType{DType::kFloat32, shape, {}}; };
  const auto make = [&](const char* name, Shape dy, Shape w, Shape x, const Attributes& geometry, bool sum, bool mask) {
    OpCase c{.name = name, .inputs = {full(dy), full(w), full(x)}, .attributes = geometry};
    c.inputs.insert(c.inputs.end(), (sum ? 1U : 0U) + (mask ? 1U : 0U), c.inputs[2]);
    c.attributes.Set("sum", sum);
    c.attributes.Set("mask", mask);
    return c;
  };
  const Attributes plain = ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1});
  const Attributes point = ConvolutionCase({1, 1}, {0, 0}, {0, 0}, {1, 1});
  return {
      make("alone", {2, 4, 7, 6}, {4, 3, 3, 3}, {2, 3, 7, 6}, plain, false, false),
      make("masked", {2, 4, 7, 6}, {4, 17, 3, 3}, {2, 17, 7, 6}, plain, false, true),
      make("summed", {2, 8, 5, 5}, {8, 16, 1, 1}, {2, 16, 5, 5}, point, true, false),
      make("summed_and_masked", {2, 32, 5, 5}, {32, 16, 1, 1}, {2, 16, 5, 5}, point, true, true),
      make("stride", {2, 4, 4, 3}, {4, 3, 3, 3}, {2, 3, 8, 6}, ConvolutionCase({2, 2}, {1, 1}, {1, 1}, {1, 1}), true,
           true),
      make("groups", {2, 6, 6, 6}, {6, 2, 3, 3}, {2, 4, 6, 6}, ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2),
           false, true),
      make("one_dimension", {2, 4, 5}, {4, 3, 5}, {2, 3, 11}, ConvolutionCase({2}, {2}, {1}, {1}), true, true),
  };
}

}  // namespace

OpDef ConvolutionBackwardDataSumsOp() {
  return {.name = kConvolutionBackwardDataSumsName,
          .doc =
              "(dy [N,K,out..], w [K,C/groups,kernel..], x [N,C,in..][, z like x][, y like x]) -> g like x, sums of g "
              "[C], sums of g * x [C]: a convolution's gradient of its input, plus z, 0 where y is not above 0.",
          .attributes = JoinSpecs(
              {ConvolutionAttributes(), {{"sum", false, "whether z is given"}, {"mask", false, "whether y is given"}}}),
          .infer = InferConvolutionBackwardDataSums,
          .reference = ConvolutionBackwardDataSumsReference,
          .precision = Precision::kPrefer16,
          .flops = [](const Attributes&, std::span<const TensorType> in,
                      std::span<const TensorType>) { return ConvolutionFlops(in[1].shape, in[0].shape); },
          .cases = ConvolutionBackwardDataSumsCases};
}

}  // namespace moka
