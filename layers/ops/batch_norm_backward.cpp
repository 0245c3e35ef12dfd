// With r = 1/sqrt(variance+eps), h = (x-mean)*r, g = dy (masked where y <= 0 under relu) and m elements a channel:
// dshift = sum g, dscale = sum g*h, dx = scale*r*(g - dshift/m - h*dscale/m).
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/ops.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kName = "batch_norm_backward";

std::vector<TensorType> Infer(const Attributes& attributes, std::span<const TensorType> in) {
  const bool affine = attributes.Bool("affine");
  const bool relu = attributes.Bool("relu");
  const size_t inputs = 4U + (affine ? 1U : 0U) + (relu ? 1U : 0U);
  CheckInputCount(kName, in, inputs, inputs);
  const Shape& x = in[0].shape;
  CheckFloat(kName, "x", in[0]);
  if (x.rank() < 2) throw Error(ErrorKind::kConfig, StrCat(kName, ": x must be [N,C,..], found ", x.ToString()));
  const Shape channels{x[1]};
  CheckShape(kName, "mean", in[1].shape, channels, "one value a channel");
  CheckShape(kName, "variance", in[2].shape, channels, "one value a channel");
  CheckShape(kName, "dy", in[3].shape, x, "x's shape");
  if (affine) CheckShape(kName, "scale", in[4].shape, channels, "one value a channel");
  if (relu) CheckShape(kName, "y", in.back().shape, x, "x's shape");
  std::vector<TensorType> out = {PlainType(in[0].dtype, x)};
  if (affine) out.insert(out.end(), 2, PlainType(in[4].dtype, channels));
  return out;
}

void Reference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const bool affine = attributes.Bool("affine");
  const double count = static_cast<double>(x.Count()) / static_cast<double>(x[1]);
  std::vector<double> dscale(static_cast<size_t>(x[1]), 0.0);
  std::vector<double> dshift(static_cast<size_t>(x[1]), 0.0);
  const auto each = [&](auto&& f) {
    VisitElements(x, [&](const Index& index, int64_t offset) {
      const auto i = static_cast<size_t>(offset);
      const auto c = static_cast<size_t>(index[1]);
      const double r = 1 / std::sqrt(in[2].values[c] + attributes.Float("eps"));
      const bool passes = !attributes.Bool("relu") || in.back().values[i] > 0;
      f(i, c, r, (in[0].values[i] - in[1].values[c]) * r, passes ? in[3].values[i] : 0.0);
    });
  };
  each([&](size_t, size_t c, double, double h, double g) {
    dshift[c] += g;
    dscale[c] += g * h;
  });
  each([&](size_t i, size_t c, double r, double h, double g) {
    const double scale = affine ? in[4].values[c] : 1;
    out[0].values[i] = scale * r * (g - dshift[c] / count - h * dscale[c] / count);
  });
  if (!affine) return;
  out[1].values = dscale;
  out[2].values = dshift;
}

std::vector<OpCase> Cases() {
  const auto make = [](const char* name, Shape x, bool affine, bool relu) {
    const TensorType full{DType::kFloat32, x, {}};
    const TensorType channel{DType::kFloat32, Shape{x[1]}, {}};
    OpCase c{.name = name,
             .inputs = {full, channel, channel, full},
             .attributes = {{"eps", 1e-5}, {"affine", affine}, {"relu", relu}},
             .ranges = {{2, 0.5, 1.25}}};
    if (affine) c.inputs.push_back(channel);
    if (relu) c.inputs.push_back(full);
    return c;
  };
  return {make("plain", {3, 4, 5, 5}, false, false),
          make("affine", {3, 17, 4, 3}, true, false),
          make("affine_relu", {2, 16, 5, 5}, true, true),
          make("relu", {4, 5, 3, 3}, false, true),
          make("two_axes", {9, 6}, true, false),
          make("one_dimension", {3, 4, 7}, false, false),
          make("three_dimensions", {2, 3, 3, 4, 5}, true, false)};
}

}  // namespace

OpDef BatchNormBackwardOp() {
  return {.name = kName,
          .doc = "(x, mean, variance, dy[, scale][, y]) -> dx[, dscale, dshift]; scale is given if affine, y if relu.",
          .attributes = {{"eps", {}, "added to the variance"},
                         {"affine", {}, "whether the forward had scale and shift"},
                         {"relu", {}, "whether the forward ended in a ReLU"}},
          .infer = Infer,
          .reference = Reference,
          .cases = Cases};
}

}  // namespace moka
