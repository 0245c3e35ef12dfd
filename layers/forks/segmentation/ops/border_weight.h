// U-Net's weights of pixels from labels, for the op's reference (double) and its kernel (float).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/types.h"
#include "graph/attributes.h"
#include "layers/forks/segmentation/ops/regions.h"

namespace moka {

struct BorderStep {
  int64_t y = 0;
  int64_t x = 0;
  double distance = 0;
};

// All steps of at most `most` pixels, nearest first.
inline std::vector<BorderStep> StepsWithin(double most) {
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
inline double BorderDistances(const Regions& objects, const std::vector<BorderStep>& steps, int64_t y, int64_t x) {
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

// labels and weights [N,1,H,W].
template <class T>
void WeighBorders(const Attributes& attributes, const Shape& shape, const T* labels, T* weights) {
  const int64_t plane = shape[2] * shape[3];
  const Doubles& class_weight = attributes.Get<Doubles>("class_weight");
  const auto object_label = static_cast<double>(attributes.Int("object_label"));
  const auto ignored = static_cast<double>(attributes.Int("ignore_label"));
  const double sigma = attributes.Float("sigma");
  const std::vector<BorderStep> steps = StepsWithin(4 * sigma);
  for (int64_t n = 0; n < shape[0]; ++n) {
    const T* label = labels + n * plane;
    T* weight = weights + n * plane;
    const auto is_object = [&](int64_t at) { return static_cast<double>(label[at]) == object_label; };
    const Regions objects = FindRegions(shape[2], shape[3], 1, is_object);
    for (int64_t at = 0; at < plane; ++at) {
      weight[at] = 0;
      const auto value = static_cast<double>(label[at]);
      if (value == ignored) continue;
      const bool is_class = value >= 0 && value < static_cast<double>(class_weight.size());
      double w = is_class ? class_weight[static_cast<size_t>(value)] : 1;
      if (!is_object(at)) {
        const double d = BorderDistances(objects, steps, at / shape[3], at % shape[3]);
        w += attributes.Float("w0") * std::exp(-d * d / (2 * sigma * sigma));
      }
      weight[at] = static_cast<T>(w);
    }
  }
}

}  // namespace moka
