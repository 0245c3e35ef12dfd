// U-Net's weights of pixels (Ronneberger, Fischer, Brox, arXiv 1505.04597, equation 2), made of the labels: w = w_c +
// w0 exp(-(d1 + d2)^2 / (2 sigma^2)), d1 and d2 the distances from the pixel to the nearest pixels of the nearest and
// of the second nearest object. Only pixels outside of objects have the second term, and objects farther than 4 sigma
// are not looked for: beyond, the term is below w0 exp(-8).
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/segmentation/ops.h"
#include "layers/ops/segmentation/regions.h"

namespace moka {
namespace {

constexpr double kMostBorderSigma = 64;  // the list of steps stays below 206,000

std::vector<TensorType> InferBorderWeight(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("border_weight", in, 1, 1);
  CheckFloat("border_weight", "label", in[0]);
  const Shape& label = in[0].shape;
  if (label.rank() != 4 || label[1] != 1) {
    throw Error(ErrorKind::kConfig, StrCat("border_weight: label must be [N,1,H,W], found ", label.ToString()));
  }
  const double sigma = attributes.Float("sigma");
  if (!(sigma > 0 && sigma <= kMostBorderSigma)) {
    throw Error(ErrorKind::kConfig,
                StrCat("border_weight: sigma must be above 0 and at most ", kMostBorderSigma, ", found ", sigma));
  }
  return {PlainType(in[0].dtype, label)};
}

struct BorderStep {
  int64_t y = 0;
  int64_t x = 0;
  double distance = 0;
};

// All steps of at most `most` pixels, nearest first.
std::vector<BorderStep> StepsWithin(double most) {
  const auto reach = static_cast<int64_t>(std::floor(most));
  std::vector<BorderStep> steps;
  for (int64_t y = -reach; y <= reach; ++y) {
    for (int64_t x = -reach; x <= reach; ++x) {
      const double distance = std::hypot(static_cast<double>(y), static_cast<double>(x));
      if (distance <= most) steps.push_back({y, x, distance});
    }
  }
  std::ranges::stable_sort(steps, {}, &BorderStep::distance);
  return steps;
}

// d1 + d2 of a pixel outside, or infinity where there are no two objects near.
double BorderDistances(const Regions& objects, const std::vector<BorderStep>& steps, int64_t y, int64_t x) {
  int32_t nearest = 0;
  double first = 0;
  for (const BorderStep& step : steps) {
    const int64_t to_y = y + step.y;
    const int64_t to_x = x + step.x;
    if (to_y < 0 || to_y >= objects.height || to_x < 0 || to_x >= objects.width) continue;
    const int32_t object = objects.numbers[static_cast<size_t>(to_y * objects.width + to_x)];
    if (object == 0 || object == nearest) continue;
    if (nearest != 0) return first + step.distance;
    nearest = object;
    first = step.distance;
  }
  return HUGE_VAL;
}

void BorderWeightReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const int64_t plane = shape[2] * shape[3];
  const Doubles& class_weight = attributes.Get<Doubles>("class_weight");
  const auto object_label = static_cast<double>(attributes.Int("object_label"));
  const auto ignored = static_cast<double>(attributes.Int("ignore_label"));
  const double sigma = attributes.Float("sigma");
  const std::vector<BorderStep> steps = StepsWithin(4 * sigma);
  for (int64_t n = 0; n < shape[0]; ++n) {
    const double* label = in[0].values.data() + n * plane;
    double* weight = out[0].values.data() + n * plane;
    const Regions objects = FindRegions(shape[2], shape[3], 1, [&](int64_t at) { return label[at] == object_label; });
    for (int64_t at = 0; at < plane; ++at) {
      weight[at] = 0;
      if (label[at] == ignored) continue;
      const bool is_class = label[at] >= 0 && label[at] < static_cast<double>(class_weight.size());
      weight[at] = is_class ? class_weight[static_cast<size_t>(label[at])] : 1;
      if (label[at] == object_label) continue;
      const double d = BorderDistances(objects, steps, at / shape[3], at % shape[3]);
      weight[at] += attributes.Float("w0") * std::exp(-d * d / (2 * sigma * sigma));
    }
  }
}

std::vector<OpCase> BorderWeightCases() {
  const auto one = [](std::string name, TensorType label, Attributes attributes, double most) {
    return OpCase{.name = std::move(name),
                  .inputs = {std::move(label)},
                  .attributes = std::move(attributes),
                  .ranges = {{0, 0, most}}};
  };
  return {one("defaults", Float32({2, 1, 9, 7}), {}, 1),
          one("classes", Float32({1, 1, 8, 8}),
              {{"class_weight", Doubles{0.5, 2.0, 3.0}}, {"sigma", 1.5}, {"object_label", int64_t{2}}}, 3),
          one("ignored", Float32({1, 1, 6, 11}), {{"ignore_label", int64_t{2}}, {"w0", 3.0}}, 2)};
}

}  // namespace

OpDef BorderWeightOp() {
  return {.name = "border_weight",
          .doc =
              "label [N,1,H,W] -> the weight of each pixel: its class's, and more between two objects near each "
              "other.",
          .attributes = {{"class_weight", Doubles{}, "one a class from 0; others have 1"},
                         {"w0", 10.0, "the most that nearness adds"},
                         {"sigma", 5.0, "pixels"},
                         {"object_label", int64_t{1}, "connected pixels with this label are an object"},
                         {"ignore_label", int64_t{-1}, "pixels of weight 0"}},
          .infer = InferBorderWeight,
          .reference = BorderWeightReference,
          .precision = Precision::kKeep32,
          .cases = BorderWeightCases};
}

}  // namespace moka
