// Places are fixed-point numbers, so that a row is walked by exact additions and a map's result does not depend on the
// compiler; the four weights of a bilinear read are whole parts of 2048ths.
#include "data/augment/geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"

namespace moka {
namespace {

// Places in the picture in whole parts of a pixel: sums of them are exact, and their bits are weights.
constexpr int kPlaceBits = 32;
struct FixedPlace {
  int64_t x = 0;
  int64_t y = 0;
};
int64_t Fixed(double x) { return static_cast<int64_t>(x * 0x1.0p32); }

// Weights of the four neighbours are whole parts of this: 255 times its square fits 31 bits.
constexpr int kWeightBits = 11;
constexpr int kOne = 1 << kWeightBits;

template <int kChannels>
void Interpolate(const Image& from, const FixedPlace& place, uint8_t* to) {
  // Neighbours' centres lie at whole numbers and a half; at the picture's edge the edge's pixels are repeated.
  constexpr int64_t kHalf = int64_t{1} << (kPlaceBits - 1);
  const int64_t x = (place.x + kHalf) >> kPlaceBits;
  const int64_t y = (place.y + kHalf) >> kPlaceBits;
  const auto wx = static_cast<int>((place.x + kHalf) >> (kPlaceBits - kWeightBits)) & (kOne - 1);
  const auto wy = static_cast<int>((place.y + kHalf) >> (kPlaceBits - kWeightBits)) & (kOne - 1);
  const int64_t x0 = std::max<int64_t>(x - 1, 0) * kChannels;
  const int64_t x1 = std::min(x, from.width - 1) * kChannels;
  const int64_t line = from.width * kChannels;
  const uint8_t* above = from.pixels.data() + std::max<int64_t>(y - 1, 0) * line;
  const uint8_t* below = from.pixels.data() + std::min(y, from.height - 1) * line;
  for (int c = 0; c < kChannels; ++c) {
    const int upper_value = (above[x0 + c] << kWeightBits) + wx * (above[x1 + c] - above[x0 + c]);
    const int lower_value = (below[x0 + c] << kWeightBits) + wx * (below[x1 + c] - below[x0 + c]);
    const int value = (upper_value << kWeightBits) + wy * (lower_value - upper_value);
    to[c] = static_cast<uint8_t>((value + kOne * kOne / 2) >> (2 * kWeightBits));
  }
}

bool IsInside(const Image& image, const FixedPlace& p) {
  const auto is_below = [](int64_t place, int64_t side) {
    return static_cast<uint64_t>(place) < static_cast<uint64_t>(side) << kPlaceBits;
  };
  return is_below(p.x, image.width) && is_below(p.y, image.height);
}

// Where the pixels of a row of the result come from, one after the other.
class AffineRow {
 public:
  AffineRow(const AffineMap& map, int64_t y) : step_{Fixed(map.xx), Fixed(map.yx)} {
    const PicturePoint first = map({0.5, static_cast<double>(y) + 0.5});
    place_ = {Fixed(first.x), Fixed(first.y)};
  }
  FixedPlace Next() {
    const FixedPlace place = place_;
    place_ = {place.x + step_.x, place.y + step_.y};
    return place;
  }

 private:
  FixedPlace place_;
  FixedPlace step_;
};

class DisplacedRow {
 public:
  DisplacedRow(const Displacement& field, int64_t y)
      : dx_(field.dx.data() + y * field.width),
        dy_(field.dy.data() + y * field.width),
        y_(static_cast<double>(y) + 0.5) {}
  FixedPlace Next() {
    const double x = static_cast<double>(x_) + 0.5;
    const FixedPlace place{Fixed(x + double{dx_[x_]}), Fixed(y_ + double{dy_[x_]})};
    ++x_;
    return place;
  }

 private:
  const float* dx_;
  const float* dy_;
  double y_;
  int64_t x_ = 0;
};

// Calls pixel(place in the picture, target) for each pixel of the result.
template <class Row, class Map, class Pixel>
void ForEachPixel(const Map& map, Image& to, const Pixel& pixel) {
  uint8_t* target = to.pixels.data();
  for (int64_t y = 0; y < to.height; ++y) {
    Row row(map, y);
    for (int64_t x = 0; x < to.width; ++x, target += to.channels) pixel(row.Next(), target);
  }
}

template <class Row, class Map>
void MoveAll(const Map& map, uint8_t fill, const Image& from, Image& to) {
  const auto move = [&]<int kChannels>() {
    ForEachPixel<Row>(map, to, [&](const FixedPlace& place, uint8_t* target) {
      if (IsInside(from, place)) {
        Interpolate<kChannels>(from, place, target);
      } else {
        std::fill_n(target, kChannels, fill);
      }
    });
  };
  from.channels == 3 ? move.template operator()<3>() : move.template operator()<1>();
}

template <class Row, class Map>
void MoveLabels(const Map& map, uint8_t outside, const Image& from, Image& to) {
  ForEachPixel<Row>(map, to, [&](const FixedPlace& place, uint8_t* target) {
    *target = outside;
    if (!IsInside(from, place)) return;
    *target = from.pixels[static_cast<size_t>((place.y >> kPlaceBits) * from.width + (place.x >> kPlaceBits))];
  });
}

// The displacement at any place: that of the pixels around it, interpolated.
PicturePoint At(const Displacement& field, const PicturePoint& p) {
  const double x = std::clamp(p.x - 0.5, 0.0, static_cast<double>(field.width - 1));
  const double y = std::clamp(p.y - 0.5, 0.0, static_cast<double>(field.height - 1));
  const auto x0 = static_cast<int64_t>(x);
  const auto y0 = static_cast<int64_t>(y);
  const int64_t x1 = std::min(x0 + 1, field.width - 1);
  const int64_t y1 = std::min(y0 + 1, field.height - 1);
  const double wx = x - static_cast<double>(x0);
  const double wy = y - static_cast<double>(y0);
  const auto between = [&](const std::vector<float>& values) {
    const auto value = [&](int64_t row, int64_t column) {
      return double{values[static_cast<size_t>(row * field.width + column)]};
    };
    return (1 - wy) * ((1 - wx) * value(y0, x0) + wx * value(y0, x1)) +
           wy * ((1 - wx) * value(y1, x0) + wx * value(y1, x1));
  };
  return {between(field.dx), between(field.dy)};
}

}  // namespace

AffineMap AffineMap::Inverse() const {
  const double area = xx * yy - xy * yx;
  Require(area != 0, "AffineMap::Inverse: the map has an inverse");
  return {.xx = yy / area,
          .xy = -xy / area,
          .x0 = (xy * y0 - yy * x0) / area,
          .yx = -yx / area,
          .yy = xx / area,
          .y0 = (yx * x0 - xx * y0) / area};
}

AffineMap AffineAbout(const PicturePoint& center, const AffineParts& parts) {
  const double angle = parts.degrees * std::acos(-1.0) / 180;
  const double c = parts.scale * std::cos(angle);
  const double s = parts.scale * std::sin(angle);
  // Sheared along x, then along y: (x - a y, b x + (1 - a b) y).
  const double a = parts.shear_x;
  const double b = -parts.shear_y;
  AffineMap result{.xx = c - s * b, .xy = -c * a - s * (1 - a * b), .yx = s + c * b, .yy = -s * a + c * (1 - a * b)};
  result.x0 = center.x + parts.dx - result.xx * center.x - result.xy * center.y;
  result.y0 = center.y + parts.dy - result.yx * center.x - result.yy * center.y;
  return result.Inverse();
}

PicturePoint PictureMap::SourceOf(const PicturePoint& place) const {
  if (field_ == nullptr) return source_(place);
  const PicturePoint d = At(*field_, place);
  return {place.x + d.x, place.y + d.y};
}

// A displacement has no formula back. The place q with q + d(q) = p is found by going on from q to p - d(q), which
// converges where neighbours move less than their distance, that is where the field does not fold.
PicturePoint PictureMap::ResultOf(const PicturePoint& place) const {
  if (field_ == nullptr) return result_(place);
  PicturePoint q = place;
  constexpr int kMostSteps = 50;
  for (int i = 0; i < kMostSteps; ++i) {
    const PicturePoint d = At(*field_, q);
    const PicturePoint next{place.x - d.x, place.y - d.y};
    const bool is_near = std::abs(next.x - q.x) + std::abs(next.y - q.y) < 1e-3;
    q = next;
    if (is_near) break;
  }
  return q;
}

void PictureMap::MovePicture(uint8_t fill, Image& picture, Image& scratch) const {
  Require(picture.channels == 1 || picture.channels == 3, "MovePicture: 1 or 3 channels");
  scratch.Resize(picture.width, picture.height, picture.channels);
  field_ == nullptr ? MoveAll<AffineRow>(source_, fill, picture, scratch)
                    : MoveAll<DisplacedRow>(*field_, fill, picture, scratch);
  std::swap(picture, scratch);
}

void PictureMap::MoveMask(uint8_t outside, Image& mask, Image& scratch) const {
  Require(mask.channels == 1, "MoveMask: 1 channel");
  scratch.Resize(mask.width, mask.height, 1);
  field_ == nullptr ? MoveLabels<AffineRow>(source_, outside, mask, scratch)
                    : MoveLabels<DisplacedRow>(*field_, outside, mask, scratch);
  std::swap(mask, scratch);
}

NormalBox PictureMap::BoundsOf(const NormalBox& box, int64_t width, int64_t height) const {
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(height);
  // Corners do for straight lines; sides that a field bends are followed in so many steps.
  const int steps = field_ == nullptr ? 1 : 16;
  constexpr double kFar = std::numeric_limits<double>::infinity();
  PicturePoint low{kFar, kFar};
  PicturePoint high{-kFar, -kFar};
  const auto add = [&](double x, double y) {
    const PicturePoint p = ResultOf({x * w, y * h});
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  };
  for (int i = 0; i <= steps; ++i) {
    const double part = static_cast<double>(i) / steps;
    const double x = std::lerp(double{box.xmin}, double{box.xmax}, part);
    const double y = std::lerp(double{box.ymin}, double{box.ymax}, part);
    add(x, double{box.ymin});
    add(x, double{box.ymax});
    add(double{box.xmin}, y);
    add(double{box.xmax}, y);
  }
  return {static_cast<float>(low.x / w), static_cast<float>(low.y / h), static_cast<float>(high.x / w),
          static_cast<float>(high.y / h)};
}

}  // namespace moka
