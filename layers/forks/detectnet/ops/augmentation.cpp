// Decodes the row of drawn numbers and repeats OpenCV's float arithmetic of a rotated image's size, on whose rounding
// the places of all boxes hang.
#include "layers/forks/detectnet/ops/augmentation.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numbers>

#include "core/text.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

// The whole numbers around a rotated rectangle, as OpenCV's RotatedRect finds them in float: the size of images and
// the place of boxes hang on their rounding.
struct Bounds {
  int64_t left;
  int64_t top;
  int64_t width;
  int64_t height;
};

Bounds BoundsOf(float center_x, float center_y, float width, float height, float degrees) {
  const double angle = static_cast<double>(degrees) * std::numbers::pi / 180;
  const float b = static_cast<float>(std::cos(angle)) * 0.5F;
  const float a = static_cast<float>(std::sin(angle)) * 0.5F;
  const float x0 = center_x - a * height - b * width;
  const float x1 = center_x + a * height - b * width;
  const float y0 = center_y + b * height - a * width;
  const float y1 = center_y - b * height - a * width;
  const auto [low_x, high_x] = std::minmax({x0, x1, 2 * center_x - x0, 2 * center_x - x1});
  const auto [low_y, high_y] = std::minmax({y0, y1, 2 * center_y - y0, 2 * center_y - y1});
  const auto left = static_cast<int64_t>(std::floor(low_x));
  const auto top = static_cast<int64_t>(std::floor(low_y));
  return {left, top, static_cast<int64_t>(std::ceil(high_x)) - left + 1,
          static_cast<int64_t>(std::ceil(high_y)) - top + 1};
}

int64_t Whole(double value, double low, double high) {
  return std::isnan(value) ? static_cast<int64_t>(low) : static_cast<int64_t>(std::clamp(value, low, high));
}

}  // namespace

bool PictureChange::turns_hue() const { return std::abs(hue) > FLT_EPSILON; }
bool PictureChange::fades() const { return saturation < 1.0 - 1.0 / 255; }
bool PictureChange::rotates() const { return std::abs(rotation) > FLT_EPSILON; }

PictureChange AugmentationAt(const RefTensor& rows, int64_t n) {
  const double* row = rows.values.data() + n * kAugmentationColumns;
  constexpr double kSide = kMaxAugmentedSide;
  return {.hue = static_cast<float>(row[0]),
          .saturation = static_cast<float>(row[1]),
          .is_mirrored = row[2] != 0,
          .width = Whole(row[3], 1, kSide),
          .height = Whole(row[4], 1, kSide),
          .rotation = std::isfinite(row[5]) ? static_cast<float>(row[5]) : 0.0F,
          .crop_x = Whole(row[6], -4 * kSide, 4 * kSide),
          .crop_y = Whole(row[7], -4 * kSide, 4 * kSide)};
}

void CheckAugmentations(std::string_view op, const TensorType& type, int64_t images) {
  CheckFloat(op, "augmentations", type);
  CheckShape(op, "augmentations", type.shape, Shape{images, kAugmentationColumns}, "a row an image");
}

Rotation RotationOf(int64_t width, int64_t height, float degrees) {
  const auto w = static_cast<float>(width);
  const auto h = static_cast<float>(height);
  // The size is that around the centre rounded down, the place that around the true one.
  const Bounds size = BoundsOf(static_cast<float>(width / 2), static_cast<float>(height / 2), w, h, degrees);
  const Bounds place = BoundsOf(w * 0.5F, h * 0.5F, w, h, degrees);
  const double angle = static_cast<double>(degrees) * std::numbers::pi / 180;
  const double center_x = static_cast<double>(width) / 2;
  const double center_y = static_cast<double>(height) / 2;
  return {.cosine = std::cos(angle),
          .sine = std::sin(angle),
          .center_x = center_x,
          .center_y = center_y,
          .moved_x = center_x - static_cast<double>(place.left),
          .moved_y = center_y - static_cast<double>(place.top),
          .width = size.width,
          .height = size.height};
}

}  // namespace moka
