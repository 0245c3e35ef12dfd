// Where the bins of regions of interest lie in a feature map, one axis at a time: whole pixels for ROIPooling and
// PSROIPooling, bilinear samples for ROIAlign and ROIWarping. A region is a row (image, x1, y1, x2, y2) in image
// pixels. Whole pixels are found in float, as Caffe does, so that rounding agrees with it in every precision of the
// map.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "layers/ops/device_function.h"

namespace moka {

// Pixels [begin, end) of one axis.
struct PixelRange {
  int64_t begin = 0;
  int64_t end = 0;
  MOKA_HOST_DEVICE bool is_empty() const { return end <= begin; }
};

// Coordinates are held within +-2^20 (NaN is 0): sums stay exact and fit an integer.
template <class T>
MOKA_HOST_DEVICE T HeldCoordinate(T value) {
  constexpr T kLimit = 1 << 20;
  return std::isnan(value) ? 0 : std::clamp(value, -kLimit, kLimit);
}

MOKA_HOST_DEVICE inline PixelRange PixelsInside(float begin, float end, int64_t size) {
  const auto inside = [size](float at) {
    return std::clamp<int64_t>(static_cast<int64_t>(HeldCoordinate(at)), 0, size);
  };
  return {inside(begin), inside(end)};
}

// The row's image, or -1 if there are not so many.
template <class T>
MOKA_HOST_DEVICE int64_t ImageOfRoi(T index, int64_t images) {
  return index >= 0 && index < static_cast<T>(images) ? static_cast<int64_t>(index) : -1;
}

// Whether a row is of no image on purpose: -1 fills the tops whose rows depend on the data. It pools to zeros.
template <class T>
bool IsPaddingRoi(T index) {
  return index == -1;
}

// ROIPooling (Girshick 2015): both ends rounded after scaling, both included, at least one pixel.
MOKA_HOST_DEVICE inline PixelRange RoiPoolRange(float first, float last, float scale, int64_t bin, int64_t bins,
                                                int64_t size) {
  const float start = std::round(HeldCoordinate(first * scale));
  const float extent = std::max(std::round(HeldCoordinate(last * scale)) - start + 1, 1.0F);
  const float step = extent / static_cast<float>(bins);
  const auto i = static_cast<float>(bin);
  return PixelsInside(std::floor(i * step) + start, std::ceil((i + 1) * step) + start, size);
}

// PSROIPooling (Dai et al. 2016): both ends rounded before scaling, both included, at least a tenth of a pixel.
MOKA_HOST_DEVICE inline PixelRange PsroiPoolRange(float first, float last, float scale, int64_t bin, int64_t bins,
                                                  int64_t size) {
  const float start = std::round(HeldCoordinate(first)) * scale;
  const float end = (std::round(HeldCoordinate(last)) + 1) * scale;
  const float step = std::max(end - start, 0.1F) / static_cast<float>(bins);
  const auto i = static_cast<float>(bin);
  return PixelsInside(std::floor(i * step + start), std::ceil((i + 1) * step + start), size);
}

// One axis of a bilinear sample: two pixels and the weight of the second one.
template <class T>
struct Taps {
  bool is_inside = false;
  int64_t low = 0;
  int64_t high = 0;
  T high_weight = 0;
};

// A position less than `margin` beyond the first or last pixel takes the value of that pixel; farther out there is
// none.
template <class T>
MOKA_HOST_DEVICE Taps<T> TapsAt(T position, int64_t size, T margin) {
  const auto last = static_cast<T>(size - 1);
  if (!(position >= -margin && position <= last + margin)) return {};
  const T at = std::clamp<T>(position, 0, last);
  const auto low = static_cast<int64_t>(at);
  return {true, low, std::min(low + 1, size - 1), at - static_cast<T>(low)};
}

// ROIAlign (He et al. 2017) along one axis: `grid` samples a bin, in the middle of equal parts of it.
template <class T>
struct AlignAxis {
  T start = 0;
  T step = 0;
  int64_t grid = 0;
  int64_t size = 0;
  T margin = 1;  // pixels beyond the first or last one that still have its value

  MOKA_HOST_DEVICE Taps<T> At(int64_t bin, int64_t sample) const {
    const T part = (static_cast<T>(sample) + T(0.5)) / static_cast<T>(grid);
    return TapsAt<T>(start + (static_cast<T>(bin) + part) * step, size, margin);
  }
};

struct AlignFields {
  double scale = 1;
  double pad_ratio = 0;
  int64_t sampling_ratio = 0;
  bool aligned = false;
  double margin = 1;
};

// sampling_ratio 0 takes as many samples as the bin has pixels, at most as many as the map has.
template <class T>
MOKA_HOST_DEVICE AlignAxis<T> AlignAxisOf(T first, T last, const AlignFields& fields, int64_t bins, int64_t size) {
  const T pad = (last - first + 1) * static_cast<T>(fields.pad_ratio);
  const auto scale = static_cast<T>(fields.scale);
  const T offset = fields.aligned ? T(0.5) : T(0);
  const T start = HeldCoordinate((first - pad) * scale) - offset;
  T extent = HeldCoordinate((last + pad) * scale) - offset - start;
  if (!fields.aligned) extent = std::max<T>(extent, 1);
  const T step = extent / static_cast<T>(bins);
  const auto pixels = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(step)), 0, size);
  return {start, step, fields.sampling_ratio > 0 ? fields.sampling_ratio : pixels, size, static_cast<T>(fields.margin)};
}

// Calls f(row * width + column, weight) for the pixels of one sample.
template <class T, class F>
MOKA_HOST_DEVICE void VisitTaps(const Taps<T>& y, const Taps<T>& x, int64_t width, F&& f) {
  f(y.low * width + x.low, (1 - y.high_weight) * (1 - x.high_weight));
  f(y.low * width + x.high, (1 - y.high_weight) * x.high_weight);
  f(y.high * width + x.low, y.high_weight * (1 - x.high_weight));
  f(y.high * width + x.high, y.high_weight * x.high_weight);
}

// Calls f(pixel, weight) for every pixel that the mean over a bin's samples takes; weights are divided by the count.
template <class T, class F>
MOKA_HOST_DEVICE void VisitAlignBin(const AlignAxis<T>& y, const AlignAxis<T>& x, int64_t bin_y, int64_t bin_x, F&& f) {
  const T share = 1 / static_cast<T>(std::max<int64_t>(1, y.grid * x.grid));
  for (int64_t j = 0; j < y.grid; ++j) {
    const Taps<T> row = y.At(bin_y, j);
    if (!row.is_inside) continue;
    for (int64_t i = 0; i < x.grid; ++i) {
      const Taps<T> column = x.At(bin_x, i);
      if (!column.is_inside) continue;
      VisitTaps(row, column, x.size, [&](int64_t pixel, T weight) { f(pixel, weight * share); });
    }
  }
}

}  // namespace moka
