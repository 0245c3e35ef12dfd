// Batch normalisation (Ioffe & Szegedy 2015) with the statistics of this batch: over every axis but the channels,
// mean = E[x], variance = E[(x-mean)^2] (biased), y = (x-mean)/sqrt(variance+eps) * scale + shift, optionally plus a
// residual summand r like x (He et al. 2016), optionally a ReLU. With strides, y is made at every stride-th position
// only: where nothing but strided convolutions reads it.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/gradients.h"
#include "layers/ops/normalisation/batch_statistics.h"
#include "layers/ops/normalisation/sampled.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

// Whether there are scale and shift.
bool IsAffineOfBatchNorm(const Attributes& attributes, size_t inputs) {
  return inputs >= (attributes.Bool("sum") ? 4U : 3U);
}

std::vector<TensorType> InferBatchNorm(const Attributes& attributes, std::span<const TensorType> in) {
  const size_t extra = attributes.Bool("sum") ? 1 : 0;
  if (in.size() != 1 + extra) CheckInputCount("batch_norm", in, 3 + extra, 3 + extra);
  CheckFloat("batch_norm", "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() < 2 || x.Count() == 0) {
    throw Error(ErrorKind::kConfig, StrCat("batch_norm: x must be [N,C,..] with elements, found ", x.ToString()));
  }
  if (!(attributes.Float("eps") >= 0)) {
    throw Error(ErrorKind::kConfig, StrCat("batch_norm: eps must be at least 0, found ", attributes.Float("eps")));
  }
  for (size_t i = 1; i + extra < in.size(); ++i) {
    CheckFloat("batch_norm", i == 1 ? "scale" : "shift", in[i]);
    CheckShape("batch_norm", i == 1 ? "scale" : "shift", in[i].shape, Shape{x[1]}, "one value a channel");
  }
  if (extra > 0) {
    if (in.back().dtype != StatisticsType(in[0].dtype)) {
      CheckSameDType("batch_norm", "x", in[0], "the residual", in.back());
    }
    CheckShape("batch_norm", "the residual", in.back().shape, x, "x's shape");
  }
  const Ints& stride = attributes.Get<Ints>("stride");
  if (!stride.empty() && extra == 0) throw Error(ErrorKind::kConfig, "batch_norm: stride wants a residual");
  const TensorType statistic = PlainType(StatisticsType(in[0].dtype), Shape{x[1]});
  return {PlainType(in[0].dtype, SampledShape("batch_norm", x, stride)), statistic, statistic};
}

void BatchNormReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const std::vector<double>& mean = out[1].values;
  const std::vector<double>& variance = out[2].values;
  BatchStatistics(in[0], out[1].values, out[2].values);
  const Ints& stride = attributes.Get<Ints>("stride");
  VisitElements(in[0].type.shape, [&](const Index& index, int64_t offset) {
    const int64_t place = SampledPlace(out[0].type.shape, index, stride);
    if (place < 0) return;
    const auto i = static_cast<size_t>(offset);
    const auto c = static_cast<size_t>(index[1]);
    double y = (in[0].values[i] - mean[c]) / std::sqrt(variance[c] + attributes.Float("eps"));
    if (IsAffineOfBatchNorm(attributes, in.size())) y = y * in[1].values[c] + in[2].values[c];
    if (attributes.Bool("sum")) y += in.back().values[i];
    out[0].values[static_cast<size_t>(place)] = attributes.Bool("relu") ? std::max(y, 0.0) : y;
  });
}

// dx through y is batch_norm_backward; through mean it is dmean/m, through variance dvariance * 2(x-mean)/m.
ValueId ThroughStatistics(GradientContext& c, ValueId dx) {
  const Shape& x = c.b().shape(c.x(0));
  const double m = static_cast<double>(x.Count()) / static_cast<double>(x[1]);
  Shape channel = x;
  for (int i = 0; i < x.rank(); ++i) channel = channel.With(i, i == 1 ? x[1] : 1);
  const auto add = [&](ValueId sum, const std::string& term, std::vector<ValueId> inputs) {
    if (sum == kNoId) sum = c.b().Pointwise("x0*0", {c.x(0)});
    inputs.insert(inputs.begin(), sum);
    return c.b().Pointwise(StrCat("x0+", term), inputs);
  };
  if (c.dy(1) != kNoId) dx = add(dx, StrCat("x1*", 1 / m), {c.b().Reshape(c.dy(1), channel)});
  if (c.dy(2) != kNoId) {
    const ValueId mean = c.b().Reshape(c.y(1), channel);
    dx = add(dx, StrCat("x1*(x2-x3)*", 2 / m), {c.b().Reshape(c.dy(2), channel), c.x(0), mean});
  }
  return dx;
}

// The gradient. If there is no residual, y > 0 can be told from x and the coefficients, which saves reading y.
void BatchNormGradient(GradientContext& c) {
  const bool sum = c.attributes().Bool("sum");
  const bool affine = IsAffineOfBatchNorm(c.attributes(), static_cast<size_t>(c.input_count()));
  const bool relu = c.attributes().Bool("relu");
  const Ints& stride = c.attributes().Get<Ints>("stride");
  const bool wants_residual = sum && c.wants(c.input_count() - 1);
  ValueId dx = kNoId;
  if (c.dy(0) != kNoId) {
    const std::string mask = !relu ? "" : sum ? "output" : "input";
    std::vector<ValueId> inputs = {c.x(0), c.y(1), c.y(2), c.dy(0)};
    if (affine) inputs.push_back(c.x(1));
    if (affine && mask == "input") inputs.push_back(c.x(2));
    if (mask == "output") inputs.push_back(c.y(0));
    const auto grads = c.b().Add("batch_norm_backward", inputs,
                                 {{"eps", c.attributes().Float("eps")},
                                  {"affine", affine},
                                  {"mask", mask},
                                  {"residual", wants_residual || !stride.empty()},
                                  {"stride", stride}});
    dx = grads[0];
    for (int i = 1; affine && i < 3; ++i) {
      if (c.wants(i)) c.SetDx(i, grads[static_cast<size_t>(i)]);
    }
    if (wants_residual) c.SetDx(c.input_count() - 1, grads.back());
  }
  if (!c.wants(0)) return;
  dx = ThroughStatistics(c, dx);
  if (dx != kNoId) c.SetDx(0, dx);
}

std::vector<OpCase> BatchNormCases() {
  const auto attributes = [](double eps, bool relu, bool sum = false) {
    return Attributes{{"eps", eps}, {"relu", relu}, {"sum", sum}};
  };
  const TensorType blob = Float32({2, 17, 5, 4});
  return {
      {"plain", {Float32({3, 4, 5, 5})}, attributes(1e-5, false)},
      {"affine", {Float32({3, 17, 4, 3}), Float32({17}), Float32({17})}, attributes(1e-3, false)},
      {"affine_relu", {Float32({2, 16, 5, 5}), Float32({16}), Float32({16})}, attributes(1e-5, true)},
      {"relu", {Float32({4, 5, 3, 3})}, attributes(1e-5, true)},
      {"two_axes", {Float32({9, 6}), Float32({6}), Float32({6})}, attributes(1e-5, false)},
      {"one_dimension", {Float32({3, 4, 7})}, attributes(1e-5, false)},
      {"residual", {blob, Float32({17}), Float32({17}), blob}, attributes(1e-5, false, true)},
      {"residual_relu", {blob, Float32({17}), Float32({17}), blob}, attributes(1e-5, true, true)},
      {"plain_residual_relu", {blob, blob}, attributes(1e-5, true, true)},
      {"three_dimensions", {Float32({2, 3, 3, 4, 5}), Float32({3}), Float32({3})}, attributes(1e-5, false)},
      {"strides",
       {blob, Float32({17}), Float32({17}), blob},
       With(attributes(1e-5, true, true), {{"stride", Ints{2, 2}}})},
      {"uneven_strides",
       {Float32({3, 8, 7, 7}), Float32({3, 8, 7, 7})},
       With(attributes(1e-5, false, true), {{"stride", Ints{1, 3}}})},
  };
}

}  // namespace

OpDef BatchNormOp() {
  return {.name = "batch_norm",
          .doc =
              "(x [N,C,..][, scale [C], shift [C]][, r like x]) -> y like x (with strides: [N,C,out..]), mean [C], "
              "variance "
              "[C]: normalised by this batch's statistics; r is added to the result.",
          .attributes = {{"eps", {}, "added to the variance, above 0"},
                         {"relu", false, "whether a ReLU is applied last"},
                         {"sum", false, "whether r is given"},
                         StrideSpec()},
          .infer = InferBatchNorm,
          .reference = BatchNormReference,
          .gradient = BatchNormGradient,
          // Each element of x and r is last read just before that of y is written.
          .may_overwrite = [](const Attributes&, int, int output) { return output == 0; },
          .takes_half = [](const Attributes& attributes,
                           int input) { return input == 0 || (attributes.Bool("sum") && input != 1 && input != 2); },
          .cases = BatchNormCases};
}

}  // namespace moka
