// Let r = 1/sqrt(variance+eps), h = (x-mean)*r, g the sum of the gradients that reach y (masked where y <= 0 under a
// ReLU) and m elements a channel: dshift = sum g, dscale = sum g*h, dx = scale*r*(g - dshift/m - h*dscale/m); the
// residual summand's gradient is g itself.
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

constexpr const char* kBatchNormBackwardName = "batch_norm_backward";

// Where the inputs stand: x, mean, variance, the gradients, scale, shift, y.
struct Inputs {
  explicit Inputs(const Attributes& attributes)
      : gradients(static_cast<size_t>(std::max<int64_t>(1, attributes.Int("gradients")))),
        is_affine(attributes.Bool("affine")),
        masks_by_input(attributes.String("mask") == "input"),
        masks_by_output(attributes.String("mask") == "output") {}

  size_t scale() const { return 3 + gradients; }
  size_t shift() const { return 4 + gradients; }
  size_t y() const { return count() - 1; }
  size_t count() const {
    return 3 + gradients + (is_affine ? 1U : 0U) + (is_affine && masks_by_input ? 1U : 0U) +
           (masks_by_output ? 1U : 0U);
  }

  size_t gradients;
  bool is_affine;
  bool masks_by_input;
  bool masks_by_output;
};

std::vector<TensorType> InferBatchNormBackward(const Attributes& attributes, std::span<const TensorType> in) {
  if (attributes.Int("gradients") < 1)
    throw Error(ErrorKind::kConfig, StrCat(kBatchNormBackwardName, ": needs a gradient"));
  const std::string& mask = attributes.String("mask");
  if (!mask.empty() && mask != "input" && mask != "output") {
    throw Error(ErrorKind::kConfig,
                StrCat(kBatchNormBackwardName, ": mask must be \"\", \"input\" or \"output\", found \"", mask, "\""));
  }
  const Inputs at(attributes);
  CheckInputCount(kBatchNormBackwardName, in, at.count(), at.count());
  const Shape& x = in[0].shape;
  CheckFloat(kBatchNormBackwardName, "x", in[0]);
  if (x.rank() < 2)
    throw Error(ErrorKind::kConfig, StrCat(kBatchNormBackwardName, ": x must be [N,C,..], found ", x.ToString()));
  const Shape channels{x[1]};
  CheckShape(kBatchNormBackwardName, "mean", in[1].shape, channels, "one value a channel");
  CheckShape(kBatchNormBackwardName, "variance", in[2].shape, channels, "one value a channel");
  const Ints& stride = attributes.Get<Ints>("stride");
  if (!stride.empty() && !attributes.Bool("residual"))
    throw Error(ErrorKind::kConfig, StrCat(kBatchNormBackwardName, ": stride wants residual"));
  const Shape y = SampledShape(kBatchNormBackwardName, x, stride);
  const char* y_rule = stride.empty() ? "x's shape" : "x's shape over the strides";
  for (size_t i = 0; i < at.gradients; ++i) CheckShape(kBatchNormBackwardName, "dy", in[3 + i].shape, y, y_rule);
  for (size_t i = 3 + at.gradients; i < at.count(); ++i) {
    const bool is_y = at.masks_by_output && i == at.y();
    const char* name = is_y ? "y" : i == at.scale() ? "scale" : "shift";
    CheckShape(kBatchNormBackwardName, name, in[i].shape, is_y ? y : channels, is_y ? y_rule : "one value a channel");
  }
  std::vector<TensorType> out = {PlainType(in[0].dtype, x)};
  if (at.is_affine) out.insert(out.end(), 2, PlainType(in[at.scale()].dtype, channels));
  if (attributes.Bool("residual")) out.push_back(out.front());
  return out;
}

void BatchNormBackwardReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const Inputs at(attributes);
  const double count = static_cast<double>(x.Count()) / static_cast<double>(x[1]);
  std::vector<double> dscale(static_cast<size_t>(x[1]), 0.0);
  std::vector<double> dshift(static_cast<size_t>(x[1]), 0.0);
  const auto each = [&](auto&& f) {
    VisitElements(x, [&](const Index& index, int64_t offset) {
      const auto i = static_cast<size_t>(offset);
      const auto c = static_cast<size_t>(index[1]);
      const double r = 1 / std::sqrt(in[2].values[c] + attributes.Float("eps"));
      const double h = (in[0].values[i] - in[1].values[c]) * r;
      const int64_t place = SampledPlace(in[3].type.shape, index, attributes.Get<Ints>("stride"));
      const auto p = static_cast<size_t>(std::max<int64_t>(place, 0));
      double g = 0;
      for (size_t k = 0; place >= 0 && k < at.gradients; ++k) g += in[3 + k].values[p];
      if (at.masks_by_output && !(in[at.y()].values[p] > 0)) g = 0;
      if (at.masks_by_input) {
        const double y = at.is_affine ? h * in[at.scale()].values[c] + in[at.shift()].values[c] : h;
        if (!(y > 0)) g = 0;
      }
      f(i, c, r, h, g);
    });
  };
  each([&](size_t i, size_t c, double, double h, double g) {
    dshift[c] += g;
    dscale[c] += g * h;
    if (attributes.Bool("residual")) out.back().values[i] = g;
  });
  each([&](size_t i, size_t c, double r, double h, double g) {
    const double scale = at.is_affine ? in[at.scale()].values[c] : 1;
    out[0].values[i] = scale * r * (g - dshift[c] / count - h * dscale[c] / count);
  });
  if (!at.is_affine) return;
  out[1].values = dscale;
  out[2].values = dshift;
}

std::vector<OpCase> BatchNormBackwardCases() {
  const auto make = [](const char* name, Shape x, bool affine, const std::string& mask, int64_t gradients = 1,
                       bool residual = false, const Ints& stride = {}) {
    const TensorType full{DType::kFloat32, x, {}};
    const TensorType sampled{DType::kFloat32, SampledShape(kBatchNormBackwardName, x, stride), {}};
    const TensorType channel{DType::kFloat32, Shape{x[1]}, {}};
    OpCase c{.name = name,
             .inputs = {full, channel, channel},
             .attributes = {{"eps", 1e-5},
                            {"affine", affine},
                            {"mask", mask},
                            {"gradients", gradients},
                            {"residual", residual},
                            {"stride", stride}},
             .ranges = {{2, 0.5, 1.25}}};
    c.inputs.insert(c.inputs.end(), static_cast<size_t>(gradients), sampled);
    if (affine) c.inputs.push_back(channel);
    if (affine && mask == "input") c.inputs.push_back(channel);
    if (mask == "output") c.inputs.push_back(sampled);
    return c;
  };
  return {make("plain", {3, 4, 5, 5}, false, ""),
          make("affine", {3, 17, 4, 3}, true, ""),
          make("affine_relu", {2, 16, 5, 5}, true, "input"),
          make("relu", {4, 5, 3, 3}, false, "input"),
          make("relu_by_output", {4, 5, 3, 3}, false, "output"),
          make("residual_relu", {2, 16, 5, 5}, true, "output", 1, true),
          make("residual_of_two", {2, 17, 5, 5}, true, "output", 2, true),
          make("residual_of_three", {2, 8, 5, 3}, false, "", 3, true),
          make("sum_of_four", {3, 9, 4, 5}, true, "input", 4),
          make("two_axes", {9, 6}, true, ""),
          make("one_dimension", {3, 4, 7}, false, ""),
          make("three_dimensions", {2, 3, 3, 4, 5}, true, ""),
          make("strides", {2, 17, 5, 4}, true, "output", 2, true, {2, 2}),
          make("uneven_strides", {3, 8, 7, 7}, false, "input", 1, true, {1, 3})};
}

// x, the gradients and y; statistics, scale and shift are float32.
bool TakesHalf(const Attributes& attributes, int input) {
  const Inputs at(attributes);
  const auto i = static_cast<size_t>(input);
  return i == 0 || (i >= 3 && i < at.scale()) || (at.masks_by_output && i == at.y());
}

// The sums take one sweep, which also writes g; dx takes another, which reads x and the gradients (or g alone) for the
// last time. So dx may lie on any of them, g on all but x; with strides, gradients lie elsewhere than dx's elements.
bool BatchNormBackwardMayOverwrite(const Attributes& attributes, int input, int output) {
  const bool is_affine = attributes.Bool("affine");
  if (!attributes.Get<Ints>("stride").empty()) return input == 0 && output == 0;
  if (output == 0) return true;
  const int residual = is_affine ? 3 : 1;
  return output == residual && input != 0;
}

}  // namespace

OpDef BatchNormBackwardOp() {
  return {.name = kBatchNormBackwardName,
          .doc =
              "(x, mean, variance, dy, ..[, scale][, shift][, y]) -> dx[, dscale, dshift][, g]: scale is given if "
              "affine, shift if affine and mask is \"input\", y if mask is \"output\".",
          .attributes = {{"eps", {}, "added to the variance"},
                         {"affine", {}, "whether the forward had scale and shift"},
                         {"mask", std::string(),
                          "\"input\" or \"output\" if the forward ended in a ReLU: whether y is "
                          "above 0 is told from x and the coefficients, or from y"},
                         {"gradients", int64_t{1}, "how many dy there are; their sum counts"},
                         {"residual", false, "whether g, the masked sum, is a result: a residual summand's gradient"},
                         StrideSpec()},
          .infer = InferBatchNormBackward,
          .reference = BatchNormBackwardReference,
          .may_overwrite = BatchNormBackwardMayOverwrite,
          .takes_half = TakesHalf,
          .cases = BatchNormBackwardCases};
}

}  // namespace moka
