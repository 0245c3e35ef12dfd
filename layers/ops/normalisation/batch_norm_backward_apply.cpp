// batch_norm_backward's gradients where the sums of one gradient g, masked and complete, are given: with
// r = 1/sqrt(variance+eps) and m elements a channel, dshift = sum g, dscale = r * (sum g*x - mean * sum g),
// dx = scale*r*(g - dshift/m - (x-mean)*r*dscale/m). Behind a convolution's gradient that has summed what it wrote.
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kBatchNormBackwardApplyName = "batch_norm_backward_apply";

std::vector<TensorType> InferBatchNormBackwardApply(const Attributes& attributes, std::span<const TensorType> in) {
  const bool is_affine = attributes.Bool("affine");
  const size_t count = is_affine ? 7 : 6;
  CheckInputCount(kBatchNormBackwardApplyName, in, count, count);
  CheckFloat(kBatchNormBackwardApplyName, "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() < 2) {
    throw Error(ErrorKind::kConfig, StrCat(kBatchNormBackwardApplyName, ": x must be [N,C,..], found ", x.ToString()));
  }
  constexpr const char* kNames[] = {"x", "mean", "variance", "g", "the sums", "the sums of products", "scale"};
  for (size_t i = 1; i < count; ++i) {
    const bool is_image = i == 3;
    CheckShape(kBatchNormBackwardApplyName, kNames[i], in[i].shape, is_image ? x : Shape{x[1]},
               is_image ? "x's shape" : "one value a channel");
  }
  std::vector<TensorType> out = {PlainType(in[0].dtype, x)};
  if (is_affine) out.insert(out.end(), 2, PlainType(in[6].dtype, Shape{x[1]}));
  return out;
}

void BatchNormBackwardApplyReference(const Attributes& attributes, std::span<const RefTensor> in,
                                     std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const bool is_affine = attributes.Bool("affine");
  const double count = static_cast<double>(x.Count()) / static_cast<double>(x[1]);
  std::vector<double> r(static_cast<size_t>(x[1]));
  std::vector<double> dscale(r.size());
  for (size_t c = 0; c < r.size(); ++c) {
    r[c] = 1 / std::sqrt(in[2].values[c] + attributes.Float("eps"));
    dscale[c] = r[c] * (in[5].values[c] - in[1].values[c] * in[4].values[c]);
  }
  VisitElements(x, [&](const Index& index, int64_t offset) {
    const auto i = static_cast<size_t>(offset);
    const auto c = static_cast<size_t>(index[1]);
    const double scale = is_affine ? in[6].values[c] : 1;
    const double h = (in[0].values[i] - in[1].values[c]) * r[c];
    out[0].values[i] = scale * r[c] * (in[3].values[i] - in[4].values[c] / count - h * dscale[c] / count);
  });
  if (!is_affine) return;
  out[1].values = dscale;
  out[2].values = in[4].values;
}

std::vector<OpCase> BatchNormBackwardApplyCases() {
  const auto make = [](const char* name, Shape x, bool affine) {
    const TensorType full{DType::kFloat32, x, {}};
    const TensorType channel = Float32({x[1]});
    OpCase c{.name = name,
             .inputs = {full, channel, channel, full, channel, channel},
             .attributes = {{"eps", 1e-5}, {"affine", affine}},
             .ranges = {{2, 0.5, 1.25}}};
    if (affine) c.inputs.push_back(channel);
    return c;
  };
  return {make("plain", {3, 4, 5, 5}, false), make("affine", {2, 17, 4, 3}, true),
          make("channels_of_a_pack", {2, 16, 5, 5}, true), make("two_axes", {9, 6}, true),
          make("three_dimensions", {2, 8, 2, 3, 4}, false)};
}

}  // namespace

OpDef BatchNormBackwardApplyOp() {
  return {.name = kBatchNormBackwardApplyName,
          .doc =
              "(x [N,C,..], mean [C], variance [C], g like x, sums of g [C], sums of g * x [C][, scale [C]]) -> dx "
              "like x[, dscale [C], dshift [C]] as batch_norm_backward's, from sums that are given.",
          .attributes = {{"eps", {}, "added to the variance"}, {"affine", {}, "whether scale is given"}},
          .infer = InferBatchNormBackwardApply,
          .reference = BatchNormBackwardApplyReference,
          .may_overwrite = [](const Attributes&, int, int output) { return output == 0; },
          .takes_half = [](const Attributes&, int input) { return input == 0 || input == 3; },
          .cases = BatchNormBackwardApplyCases};
}

}  // namespace moka
