// Planes of scores are walked in the order in which they lie.
#include "tools/report/pixel_confusion.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace moka {

PixelConfusion::PixelConfusion(int64_t classes, std::set<int64_t> ignored)
    : classes_(classes), ignored_(std::move(ignored)), counts_(static_cast<size_t>(classes * classes)) {
  Require(classes > 0 && classes <= kMostClasses, "a matrix of pixels is of at most 1,024 classes");
}

void PixelConfusion::Add(const Shape& shape, std::span<const float> scores, std::span<const float> labels) {
  const auto pixels = static_cast<size_t>(shape.Count(2, shape.rank()));
  const auto classes = static_cast<size_t>(classes_);
  Require(shape[1] == classes_ && labels.size() == static_cast<size_t>(shape[0]) * pixels, "a label for each pixel");
  argmax_.resize(pixels);
  for (size_t n = 0; n < static_cast<size_t>(shape[0]); ++n) {
    const std::span<const float> planes = scores.subspan(n * classes * pixels, classes * pixels);
    best_.assign(planes.begin(), planes.begin() + static_cast<std::ptrdiff_t>(pixels));
    std::ranges::fill(argmax_, 0);
    for (size_t c = 1; c < classes; ++c) {
      for (size_t i = 0; i < pixels; ++i) {
        const float score = planes[c * pixels + i];
        if (score < best_[i]) continue;
        best_[i] = score;
        argmax_[i] = static_cast<int64_t>(c);
      }
    }
    for (size_t i = 0; i < pixels; ++i) {
      const float given = labels[n * pixels + i];
      if (!(given >= 0 && given < static_cast<float>(classes_))) continue;
      const auto label = static_cast<int64_t>(given);
      if (ignored_.contains(label)) continue;
      ++counts_[static_cast<size_t>(label * classes_ + argmax_[i])];
    }
  }
}

std::vector<ConfusionCell> PixelConfusion::Cells() const {
  std::vector<ConfusionCell> cells;
  for (int64_t label = 0; label < classes_; ++label) {
    for (int64_t predicted = 0; predicted < classes_; ++predicted) {
      const int64_t count = counts_[static_cast<size_t>(label * classes_ + predicted)];
      if (count > 0) cells.push_back({label, predicted, count});
    }
  }
  return cells;
}

}  // namespace moka
