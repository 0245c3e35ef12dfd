// Two passes in one sweep over the result's rows: source rows are blended into one line in float, which is then blended
// along itself. The taps of both axes are computed once a size.
#include "data/image/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/vector_clones.h"

namespace moka {
namespace {

using Vector = float __attribute__((vector_size(16)));
constexpr int64_t kLanes = 4;
constexpr double kSlack = 1e-6;  // pixels, of a box that was scaled

// A side of a box and of its limits.
struct Side {
  double begin = 0;
  double size = 0;
  double lowest = 0;
  double highest = 0;
};

void MakeAxis(const Side& side, int64_t pixels, int64_t results, ResampleAxis& axis) {
  const auto& [begin, size, lowest_limit, highest_limit] = side;
  const double step = size / static_cast<double>(results);
  const double reach = std::max(step, 1.0);
  const auto lowest = std::max<int64_t>(0, static_cast<int64_t>(std::floor(lowest_limit + kSlack)));
  const auto highest = std::min(pixels, static_cast<int64_t>(std::ceil(highest_limit - kSlack)));
  axis.taps = std::min(static_cast<int64_t>(std::ceil(2 * reach)), highest - lowest);
  axis.first.resize(static_cast<size_t>(results));
  axis.weights.assign(static_cast<size_t>(results * axis.taps), 0.0F);
  for (int64_t i = 0; i < results; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * step;
    const auto nearest = static_cast<int64_t>(std::floor(center - reach - 0.5)) + 1;  // whose weight is above 0
    const int64_t first = std::clamp(nearest, lowest, highest - axis.taps);
    axis.first[static_cast<size_t>(i)] = first;
    float* const weights = axis.weights.data() + i * axis.taps;
    double sum = 0;
    const auto weight = [&](int64_t t) {
      return std::max(0.0, 1 - std::abs(static_cast<double>(first + t) + 0.5 - center) / reach);
    };
    for (int64_t t = 0; t < axis.taps; ++t) sum += weight(t);
    for (int64_t t = 0; t < axis.taps; ++t) weights[t] = static_cast<float>(weight(t) / sum);
  }
}

// line[i] (+)= the sum over kTaps rows of weights[t] * rows[t * stride + i].
template <int64_t kTaps, bool kAdds>
inline void BlendSome(const uint8_t* __restrict rows, int64_t stride, const float* weights, int64_t count,
                      float* __restrict line) {
  std::array<float, kTaps> w;
  std::copy_n(weights, kTaps, w.begin());
  for (int64_t i = 0; i < count; ++i) {
    float sum = kAdds ? line[i] : 0.0F;
    for (int64_t t = 0; t < kTaps; ++t) sum += w[static_cast<size_t>(t)] * static_cast<float>(rows[t * stride + i]);
    line[i] = sum;
  }
}

// The same over any number of rows, a few at a time.
MOKA_VECTOR_CLONES
void BlendRows(const uint8_t* rows, int64_t stride, const float* weights, int64_t taps, int64_t count, float* line) {
  switch (taps) {
    case 1: return BlendSome<1, false>(rows, stride, weights, count, line);
    case 2: return BlendSome<2, false>(rows, stride, weights, count, line);
    case 3: return BlendSome<3, false>(rows, stride, weights, count, line);
    default: BlendSome<4, false>(rows, stride, weights, count, line);
  }
  int64_t t = 4;
  for (; t + 2 <= taps; t += 2) BlendSome<2, true>(rows + t * stride, stride, weights + t, count, line);
  if (t < taps) BlendSome<1, true>(rows + t * stride, stride, weights + t, count, line);
}

inline Vector LoadVector(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline void Store(float* to, const Vector& v) { std::memcpy(to, &v, sizeof v); }

// One pixel of three channels: lanes 0 to 2; the line has a float to spare behind its last pixel. kTaps: 0 for any.
template <int64_t kTaps>
inline Vector BlendPixel(const float* line, const float* weights, int64_t taps) {
  Vector sum{};
  for (int64_t t = 0; t < (kTaps > 0 ? kTaps : taps); ++t) sum += weights[t] * LoadVector(line + 3 * t);
  return sum;
}

// A line of pixels of three channels to a row of three planes.
template <int64_t kTaps>
inline void WriteColorsOf(const float* line, const ResampleAxis& columns, int64_t width, int64_t plane,
                          const PlaneWriter& writer, float* to) {
  const Vector factor = {writer.factors[0], writer.factors[1], writer.factors[2], 0};
  const Vector summand = {writer.summands[0], writer.summands[1], writer.summands[2], 0};
  const int64_t* const first = columns.first.data();
  const float* const weights = columns.weights.data();
  const int64_t taps = columns.taps;
  const auto pixel = [&](int64_t x) {
    return BlendPixel<kTaps>(line + 3 * first[x], weights + x * taps, taps) * factor + summand;
  };
  int64_t x = 0;
  for (; x + kLanes <= width; x += kLanes) {
    Vector a = pixel(x);
    Vector b = pixel(x + 1);
    Vector c = pixel(x + 2);
    Vector d = pixel(x + 3);
    if (writer.mirror) {
      std::swap(a, d);
      std::swap(b, c);
    }
    const Vector ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Vector cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    float* const at = to + (writer.mirror ? width - kLanes - x : x);
    Store(at, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    Store(at + plane, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    Store(at + 2 * plane, __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 6, 2, 6),
                                                  __builtin_shufflevector(c, d, 2, 6, 2, 6), 0, 1, 4, 5));
  }
  for (; x < width; ++x) {
    const Vector a = pixel(x);
    float* const at = to + (writer.mirror ? width - 1 - x : x);
    for (int c = 0; c < 3; ++c) at[c * plane] = a[c];
  }
}

MOKA_VECTOR_CLONES
void WriteColors(const float* line, const ResampleAxis& columns, int64_t width, int64_t plane,
                 const PlaneWriter& writer, float* to) {
  switch (columns.taps) {
    case 2: return WriteColorsOf<2>(line, columns, width, plane, writer, to);
    case 3: return WriteColorsOf<3>(line, columns, width, plane, writer, to);
    case 4: return WriteColorsOf<4>(line, columns, width, plane, writer, to);
    default: return WriteColorsOf<0>(line, columns, width, plane, writer, to);
  }
}

// Channel `c` of a line whose pixels are `step` floats apart, to a row.
void WriteChannel(const float* line, int64_t step, const ResampleAxis& columns, int64_t width, int64_t c,
                  const PlaneWriter& writer, float* to) {
  for (int64_t x = 0; x < width; ++x) {
    const float* from = line + step * columns.first[static_cast<size_t>(x)];
    const float* weights = columns.weights.data() + x * columns.taps;
    float sum = 0;
    for (int64_t t = 0; t < columns.taps; ++t) sum += weights[t] * from[step * t];
    to[writer.mirror ? width - 1 - x : x] = sum * writer.factors[c] + writer.summands[c];
  }
}

// f(y, line) for each row of the result: the picture's rows blended, from the first column that counts on. `channels`
// values lie side by side in memory.
template <class F>
void ForLines(const uint8_t* pixels, int64_t row_bytes, int64_t channels, int64_t height, ResampleScratch& scratch,
              F&& f) {
  const ResampleAxis& rows = scratch.rows;
  const int64_t count = scratch.column_count * channels;
  scratch.line.resize(static_cast<size_t>(count) + 1);
  scratch.line.back() = 0;
  for (int64_t y = 0; y < height; ++y) {
    BlendRows(pixels + rows.first[static_cast<size_t>(y)] * row_bytes + scratch.first_column * channels, row_bytes,
              rows.weights.data() + y * rows.taps, rows.taps, count, scratch.line.data());
    f(y, scratch.line.data());
  }
}

bool IsWithin(const ImageBox& inner, const ImageBox& outer) {
  return inner.x >= outer.x - kSlack && inner.y >= outer.y - kSlack &&
         inner.x + inner.width <= outer.x + outer.width + kSlack &&
         inner.y + inner.height <= outer.y + outer.height + kSlack;
}

void MakeAxes(const PixelView& from, const ResamplePart& part, ResampleScratch& scratch) {
  const auto& [box, limits, height, width] = part;
  Require(from.bytes != nullptr, "resampling is for 8-bit pixels");
  Require(box.width > 0 && box.height > 0 && height > 0 && width > 0, "resampling: neither side is empty");
  const ImageBox all{0, 0, static_cast<double>(from.width), static_cast<double>(from.height)};
  Require(IsWithin(box, limits) && IsWithin(limits, all),
          "resampling: the box lies in its limits, they in the picture");
  MakeAxis({box.y, box.height, limits.y, limits.y + limits.height}, from.height, height, scratch.rows);
  MakeAxis({box.x, box.width, limits.x, limits.x + limits.width}, from.width, width, scratch.columns);
  std::vector<int64_t>& first = scratch.columns.first;
  scratch.first_column = first.front();
  scratch.column_count = first.back() - first.front() + scratch.columns.taps;
  for (int64_t& column : first) column -= scratch.first_column;
}

}  // namespace

PixelView ViewOf(const Image& image) {
  return {.order = PixelView::Order::kInterleaved,
          .channels = image.channels,
          .height = image.height,
          .width = image.width,
          .bytes = image.pixels.data()};
}

Image ImageOf(const PixelView& pixels) {
  if (pixels.bytes == nullptr || (pixels.channels != 1 && pixels.channels != 3)) {
    throw Error(ErrorKind::kBadData, "it is no picture of bytes");
  }
  Image image;
  image.Resize(pixels.width, pixels.height, pixels.channels);
  const int64_t plane = pixels.height * pixels.width;
  const bool is_planar = pixels.order == PixelView::Order::kPlanar;
  for (int64_t c = 0; c < pixels.channels; ++c) {
    for (int64_t i = 0; i < plane; ++i) {
      const int64_t to = i * pixels.channels + c;
      image.pixels[static_cast<size_t>(to)] = pixels.bytes[is_planar ? c * plane + i : to];
    }
  }
  return image;
}

void ResampleToPlanes(const PixelView& from, const ResamplePart& part, const PlaneWriter& writer,
                      ResampleScratch& scratch) {
  MakeAxes(from, part, scratch);
  const int64_t height = part.height;
  const int64_t width = part.width;
  const int64_t plane = height * width;
  const ResampleAxis& columns = scratch.columns;
  if (from.order == PixelView::Order::kPlanar) {
    for (int64_t c = 0; c < from.channels; ++c) {
      ForLines(from.bytes + c * from.height * from.width, from.width, 1, height, scratch,
               [&](int64_t y, const float* line) {
                 WriteChannel(line, 1, columns, width, c, writer, writer.planes + c * plane + y * width);
               });
    }
    return;
  }
  ForLines(from.bytes, from.width * from.channels, from.channels, height, scratch, [&](int64_t y, const float* line) {
    float* const to = writer.planes + y * width;
    if (from.channels == 3) return WriteColors(line, columns, width, plane, writer, to);
    for (int64_t c = 0; c < from.channels; ++c) {
      WriteChannel(line + c, from.channels, columns, width, c, writer, to + c * plane);
    }
  });
}

void ResampleToImage(const PixelView& from, const ResamplePart& part, ResampleScratch& scratch, Image& to) {
  Require(from.channels == 1 || from.channels == 3, "ResampleToImage: 1 or 3 channels");
  constexpr std::array<float, 3> kOnes = {1, 1, 1};
  constexpr std::array<float, 3> kHalves = {0.5F, 0.5F, 0.5F};
  const int64_t plane = part.height * part.width;
  scratch.planes.resize(static_cast<size_t>(from.channels * plane));
  ResampleToPlanes(from, part, {.factors = kOnes.data(), .summands = kHalves.data(), .planes = scratch.planes.data()},
                   scratch);
  to.Resize(part.width, part.height, from.channels);
  for (int64_t c = 0; c < from.channels; ++c) {
    const float* values = scratch.planes.data() + c * plane;
    uint8_t* out = to.pixels.data() + c;
    for (int64_t i = 0; i < plane; ++i) out[i * from.channels] = static_cast<uint8_t>(std::min(values[i], 255.0F));
  }
}

}  // namespace moka
