// batch_norm's result from statistics that are given: y = (x-mean)/sqrt(variance+eps) * scale + shift, optionally plus
// a residual summand, optionally a ReLU, bit for bit what batch_norm makes of the same statistics. For the backward
// pass, which then need not keep y, and behind a convolution that has summed what it wrote.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/normalisation/sampled.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kBatchNormApplyName = "batch_norm_apply";

bool IsAffineOfBatchNormApply(const Attributes& attributes, size_t inputs) {
  return inputs >= (attributes.Bool("sum") ? 6U : 5U);
}

std::vector<TensorType> InferBatchNormApply(const Attributes& attributes, std::span<const TensorType> in) {
  const size_t extra = attributes.Bool("sum") ? 1 : 0;
  if (in.size() != 3 + extra) CheckInputCount(kBatchNormApplyName, in, 5 + extra, 5 + extra);
  CheckFloat(kBatchNormApplyName, "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() < 2)
    throw Error(ErrorKind::kConfig, StrCat(kBatchNormApplyName, ": x must be [N,C,..], found ", x.ToString()));
  constexpr const char* kNames[] = {"x", "mean", "variance", "scale", "shift"};
  for (size_t i = 1; i + extra < in.size(); ++i) {
    CheckShape(kBatchNormApplyName, kNames[i], in[i].shape, Shape{x[1]}, "one value a channel");
  }
  if (extra > 0) CheckShape(kBatchNormApplyName, "the residual", in.back().shape, x, "x's shape");
  return {PlainType(in[0].dtype, SampledShape(kBatchNormApplyName, x, attributes.Get<Ints>("stride")))};
}

void BatchNormApplyReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Ints& stride = attributes.Get<Ints>("stride");
  VisitElements(in[0].type.shape, [&](const Index& index, int64_t offset) {
    const int64_t place = SampledPlace(out[0].type.shape, index, stride);
    if (place < 0) return;
    const auto i = static_cast<size_t>(offset);
    const auto c = static_cast<size_t>(index[1]);
    double y = (in[0].values[i] - in[1].values[c]) / std::sqrt(in[2].values[c] + attributes.Float("eps"));
    if (IsAffineOfBatchNormApply(attributes, in.size())) y = y * in[3].values[c] + in[4].values[c];
    if (attributes.Bool("sum")) y += in.back().values[i];
    out[0].values[static_cast<size_t>(place)] = attributes.Bool("relu") ? std::max(y, 0.0) : y;
  });
}

std::vector<OpCase> BatchNormApplyCases() {
  const auto make = [](const char* name, Shape x, bool affine, bool relu, bool sum = false, const Ints& stride = {}) {
    const TensorType channel = Float32({x[1]});
    OpCase c{.name = name,
             .inputs = {{DType::kFloat32, x, {}}, channel, channel},
             .attributes = {{"eps", 1e-5}, {"relu", relu}, {"sum", sum}, {"stride", stride}},
             .ranges = {{2, 0.5, 1.25}}};
    if (affine) c.inputs.insert(c.inputs.end(), 2, channel);
    if (sum) c.inputs.push_back(c.inputs[0]);
    return c;
  };
  return {make("plain", {3, 4, 5, 5}, false, false),
          make("relu", {2, 17, 3, 4}, true, true),
          make("two_axes", {9, 6}, true, false),
          make("residual_relu", {2, 17, 5, 4}, true, true, true),
          make("plain_residual", {2, 8, 4, 4}, false, false, true),
          make("strides", {2, 16, 5, 4}, true, true, true, {2, 2}),
          make("uneven_strides", {3, 8, 7, 7}, false, false, true, {1, 3})};
}

}  // namespace

OpDef BatchNormApplyOp() {
  return {.name = kBatchNormApplyName,
          .doc =
              "(x [N,C,..], mean [C], variance [C][, scale [C], shift [C]][, r like x]) -> y as batch_norm's, from "
              "statistics that are given.",
          .attributes = {{"eps", {}, "added to the variance"},
                         {"relu", false, "whether a ReLU is applied last"},
                         {"sum", false, "whether r is given"},
                         StrideSpec()},
          .infer = InferBatchNormApply,
          .reference = BatchNormApplyReference,
          .may_overwrite = [](const Attributes&, int, int) { return true; },
          .takes_half = [](const Attributes& attributes,
                           int input) { return input == 0 || (attributes.Bool("sum") && input == 5); },
          .cases = BatchNormApplyCases};
}

}  // namespace moka
