// Each thread sums a picture by itself and takes the lock to put the sums down. Large pictures are sampled: every pixel
// of 100,000 says as much of the mean as all of ten million.
#include "tools/new/picture_facts.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace moka {
namespace {

constexpr int64_t kMostSampled = 100'000;  // pixels of a picture

}  // namespace

void PictureFacts::Visit(const SeenItem& seen) {
  Sums sums;
  if (seen.image != nullptr) {
    const Image& image = *seen.image;
    const int64_t pixels = image.width * image.height;
    const int64_t step = std::max<int64_t>(1, pixels / kMostSampled);
    std::array<double, 3> values = {};
    std::array<double, 3> squares = {};
    int64_t count = 0;
    for (int64_t i = 0; i < pixels; i += step, ++count) {
      for (int64_t c = 0; c < 3; ++c) {
        const auto at = static_cast<size_t>(i * image.channels + std::min(c, image.channels - 1));
        const auto value = static_cast<double>(image.pixels[at]);
        values.at(static_cast<size_t>(c)) += value;
        squares.at(static_cast<size_t>(c)) += value * value;
      }
    }
    for (size_t c = 0; c < 3 && count > 0; ++c) {
      sums.values.at(c) = static_cast<float>(values.at(c) / static_cast<double>(count));
      sums.squares.at(c) = static_cast<float>(squares.at(c) / static_cast<double>(count));
    }
  }
  {
    const std::lock_guard lock(colors_mutex_);
    const auto index = static_cast<size_t>(seen.item.index);
    if (index >= sums_.size()) sums_.resize(index + 1);
    sums_[index] = sums;
    if (seen.sample != nullptr && seen.image != nullptr) {
      for (const SampleBox& box : seen.sample->box()) {
        boxes_.push_back({.picture = seen.item.index,
                          .label = box.label(),
                          .width = (box.xmax() - box.xmin()) * static_cast<double>(seen.image->width),
                          .height = (box.ymax() - box.ymin()) * static_cast<double>(seen.image->height)});
      }
    }
  }
  SourceLook::Visit(seen);
}

ColorFacts PictureFacts::ColorsOf(const std::vector<int64_t>& pictures) const {
  const bool is_gray =
      std::ranges::all_of(pictures, [&](int64_t i) { return rows()[static_cast<size_t>(i)].channels == 1; });
  const size_t channels = is_gray ? 1 : 3;
  ColorFacts colors{std::vector<double>(channels), std::vector<double>(channels)};
  for (size_t c = 0; c < channels; ++c) {
    double mean = 0;
    double square = 0;
    for (const int64_t i : pictures) {
      mean += static_cast<double>(sums_[static_cast<size_t>(i)].values.at(c));
      square += static_cast<double>(sums_[static_cast<size_t>(i)].squares.at(c));
    }
    const auto count = static_cast<double>(std::max<size_t>(1, pictures.size()));
    mean /= count;
    square /= count;
    colors.mean[c] = mean;
    // Pictures of one shade have no deviation to divide by.
    colors.deviation[c] = std::max(1.0, std::sqrt(std::max(0.0, square - mean * mean)));
  }
  return colors;
}

double Quantile(std::vector<double> values, double share) {
  Require(!values.empty() && share >= 0 && share <= 1, "a quantile is of some values");
  const auto at = static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

}  // namespace moka
