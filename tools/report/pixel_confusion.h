// A confusion matrix of the pixels of label maps.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "core/types.h"
#include "optim/evaluators/class_scores.h"

namespace moka {

// One thread; a count for each pair of classes.
class PixelConfusion {
 public:
  static constexpr int64_t kMostClasses = 1024;

  // Requires: at most kMostClasses.
  PixelConfusion(int64_t classes, std::set<int64_t> ignored);

  // Takes scores [N,C,..] and a label for each pixel; of equal scores the last wins, as for SegmentationEvaluate.
  // Labels that are ignored or no class count nowhere. Requires: the sizes fit.
  void Add(const Shape& shape, std::span<const float> scores, std::span<const float> labels);

  // The cells that are not empty, by label and prediction.
  std::vector<ConfusionCell> Cells() const;

 private:
  int64_t classes_;
  std::set<int64_t> ignored_;
  std::vector<int64_t> counts_;  // [label, predicted]
  std::vector<float> best_;      // [pixels]: the largest score so far
  std::vector<int64_t> argmax_;  // [pixels]
};

}  // namespace moka
