// Foreground-restricted Rand scores of images, for the op's reference (double) and its kernel (float).
#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "core/types.h"
#include "graph/attributes.h"
#include "layers/forks/segmentation/ops/regions.h"

namespace moka {

inline double SquaredSizes(const std::map<int32_t, double>& counts) {
  double sum = 0;
  for (const auto& [region, count] : counts) sum += count * count;
  return sum;
}

// F-score, merge and split score; 1 each where the labels have no region.
template <class T>
void ScoreRegions(const Regions& predicted, const Regions& truth, T* scores) {
  std::map<std::pair<int32_t, int32_t>, double> both;
  std::map<int32_t, double> of_truth;
  std::map<int32_t, double> of_predicted;
  for (size_t at = 0; at < truth.numbers.size(); ++at) {
    if (truth.numbers[at] == 0) continue;
    both[{truth.numbers[at], predicted.numbers[at]}] += 1;
    of_truth[truth.numbers[at]] += 1;
    of_predicted[predicted.numbers[at]] += 1;
  }
  std::fill_n(scores, 3, T{1});
  if (both.empty()) return;
  double together = 0;
  for (const auto& [regions, count] : both) together += count * count;
  const double split = SquaredSizes(of_truth);
  const double merge = SquaredSizes(of_predicted);
  scores[0] = static_cast<T>(2 * together / (split + merge));
  scores[1] = static_cast<T>(together / merge);
  scores[2] = static_cast<T>(together / split);
}

// probabilities [N,C,H,W], labels [N,1,H,W], scores [N,3].
template <class T>
void ScoreRand(const Attributes& attributes, const Shape& shape, const T* probabilities, const T* labels, T* scores) {
  const int64_t plane = shape[2] * shape[3];
  const int64_t object_label = attributes.Int("object_label");
  const double threshold = attributes.Float("threshold");
  for (int64_t n = 0; n < shape[0]; ++n) {
    const T* probability = probabilities + (n * shape[1] + object_label) * plane;
    const T* label = labels + n * plane;
    Regions predicted = FindRegions(shape[2], shape[3], attributes.Int("least_pixels"),
                                    [&](int64_t at) { return static_cast<double>(probability[at]) > threshold; });
    GrowRegions(predicted);
    const Regions truth =
        FindRegions(shape[2], shape[3], 1, [&](int64_t at) { return label[at] == static_cast<T>(object_label); });
    ScoreRegions(predicted, truth, scores + n * 3);
  }
}

}  // namespace moka
