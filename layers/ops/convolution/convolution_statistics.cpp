// A convolution that also gives what batch normalisation wants of its result: y as convolution's without bias, and of
// each channel of y the mean and the biased variance over all other axes. On GPUs, where the sums cost less while y is
// written than a sweep that reads it again. A kernel may take the variance as E[y^2] - E[y]^2 from sums in float: with
// about 1e-6 of rounding in each, the variance of a channel is off by 1e-6 (1 + mean^2/variance) of itself, and is 0
// where rounding makes it less.
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/normalisation/batch_statistics.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kConvolutionStatisticsName = "convolution_statistics";

std::vector<TensorType> InferConvolutionStatistics(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kConvolutionStatisticsName, in, 2, 2);
  CheckFloat(kConvolutionStatisticsName, "x", in[0]);
  CheckSameDType(kConvolutionStatisticsName, "x", in[0], "weight", in[1]);
  const Shape y = ConvolutionOutput(kConvolutionStatisticsName, attributes, in[0].shape, in[1].shape);
  const TensorType statistic = PlainType(StatisticsType(in[0].dtype), Shape{y[1]});
  return {PlainType(in[0].dtype, y), statistic, statistic};
}

void ConvolutionStatisticsReference(const Attributes& attributes, std::span<const RefTensor> in,
                                    std::span<RefTensor> out) {
  const Shape& w = in[1].type.shape;
  std::ranges::fill(out[0].values, 0.0);
  VisitConvolution(ConvolutionGeometry(kConvolutionStatisticsName, attributes, w), attributes.Int("groups"),
                   in[0].type.shape, w, out[0].type.shape, [&](int64_t i, int64_t j, int64_t o) {
                     out[0].values[static_cast<size_t>(o)] +=
                         in[0].values[static_cast<size_t>(i)] * in[1].values[static_cast<size_t>(j)];
                   });
  BatchStatistics(out[0], out[1].values, out[2].values);
}

std::vector<OpCase> ConvolutionStatisticsCases() {
  const Attributes plain = ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1});
  return {
      {"two_dimensions", {Float32({2, 3, 7, 6}), Float32({4, 3, 3, 3})}, plain},
      {"pointwise_stride",
       {Float32({2, 16, 7, 7}), Float32({32, 16, 1, 1})},
       ConvolutionCase({2, 2}, {0, 0}, {0, 0}, {1, 1})},
      {"odd_channels", {Float32({1, 17, 5, 5}), Float32({19, 17, 3, 3})}, plain},
      {"groups", {Float32({2, 4, 6, 6}), Float32({6, 2, 3, 3})}, ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2)},
      {"one_dimension", {Float32({2, 3, 11}), Float32({4, 3, 5})}, ConvolutionCase({2}, {2}, {1}, {1})},
  };
}

}  // namespace

OpDef ConvolutionStatisticsOp() {
  return {.name = kConvolutionStatisticsName,
          .doc =
              "(x [N,C,in..], w [K,C/groups,kernel..]) -> y [N,K,out..] as convolution's, its mean [K] and variance "
              "[K] over all axes but the channels.",
          .attributes = ConvolutionAttributes(),
          .infer = InferConvolutionStatistics,
          .reference = ConvolutionStatisticsReference,
          .precision = Precision::kPrefer16,
          .flops = [](const Attributes&, std::span<const TensorType> in,
                      std::span<const TensorType> out) { return ConvolutionFlops(in[1].shape, out[0].shape); },
          .cases = ConvolutionStatisticsCases};
}

}  // namespace moka
