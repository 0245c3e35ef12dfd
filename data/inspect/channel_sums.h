// Mean and deviation of each channel of many pictures.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/transform/transform.h"

namespace moka {

// Calls visit(channel, value) for every value of a record, channel by channel.
template <class Visit>
void VisitValues(const PixelView& pixels, Visit&& visit) {
  const int64_t plane = pixels.height * pixels.width;
  const bool planar = pixels.order == PixelView::Order::kPlanar;
  for (int64_t c = 0; c < pixels.channels; ++c) {
    for (int64_t i = 0; i < plane; ++i) {
      const int64_t at = planar ? c * plane + i : i * pixels.channels + c;
      visit(static_cast<size_t>(c), static_cast<size_t>(c * plane + i),
            pixels.bytes != nullptr ? static_cast<double>(pixels.bytes[at]) : static_cast<double>(pixels.floats[at]));
    }
  }
}

// Pictures of another count of channels than the first are left out.
class ChannelSums {
 public:
  // Returns whether the picture is in the sums.
  bool Add(const PixelView& pixels) {
    const auto channels = static_cast<size_t>(pixels.channels);
    if (values_.empty()) {
      values_.resize(channels);
      squares_.resize(channels);
    }
    if (values_.size() != channels) return false;
    count_ += static_cast<double>(pixels.height * pixels.width);
    VisitValues(pixels, [&](size_t c, size_t /*i*/, double value) {
      values_[c] += value;
      squares_[c] += value * value;
    });
    return true;
  }

  size_t channels() const { return values_.size(); }
  std::vector<double> Mean() const {
    std::vector<double> mean = values_;
    for (double& value : mean) value /= count_;
    return mean;
  }
  std::vector<double> Deviation() const {
    std::vector<double> deviation = Mean();
    for (size_t c = 0; c < deviation.size(); ++c) {
      deviation[c] = std::sqrt(std::max(0.0, squares_[c] / count_ - deviation[c] * deviation[c]));
    }
    return deviation;
  }

 private:
  std::vector<double> values_;   // a channel
  std::vector<double> squares_;  // a channel
  double count_ = 0;             // of values a channel
};

}  // namespace moka
