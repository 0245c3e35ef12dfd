// A measured aspect ratio is uncertain by a tenth and hardly changes; all else is uncertain in parts of the height.
#include "tools/track/box_filter.h"

#include <algorithm>

namespace moka {
namespace {

constexpr double kPlace = 1.0 / 20;   // of the height
constexpr double kSpeed = 1.0 / 160;  // of the height, a frame
constexpr size_t kAspect = 2;
constexpr size_t kHeight = 3;

std::array<double, 4> MeasuredOf(const PixelBox& box) {
  constexpr double kLeast = 1e-6;  // pixels
  const double height = std::max(box.ymax - box.ymin, kLeast);
  return {(box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2, (box.xmax - box.xmin) / height, height};
}

double Squared(double value) { return value * value; }

}  // namespace

BoxFilter::BoxFilter(const PixelBox& first) {
  const std::array<double, 4> measured = MeasuredOf(first);
  for (size_t i = 0; i < axes_.size(); ++i) {
    axes_[i].value = measured[i];
    axes_[i].p_value = Squared(i == kAspect ? 1e-2 : 2 * kPlace * measured[kHeight]);
    axes_[i].p_speed = Squared(i == kAspect ? 1e-5 : 10 * kSpeed * measured[kHeight]);
  }
}

void BoxFilter::Predict(bool is_lost) {
  const double height = axes_[kHeight].value;
  if (is_lost) axes_[kHeight].speed = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    Axis& x = axes_[i];
    x.value += x.speed;
    x.p_value += 2 * x.p_both + x.p_speed + Squared(i == kAspect ? 1e-2 : kPlace * height);
    x.p_both += x.p_speed;
    x.p_speed += Squared(i == kAspect ? 1e-5 : kSpeed * height);
  }
}

void BoxFilter::Update(const PixelBox& measured) {
  const std::array<double, 4> z = MeasuredOf(measured);
  const double height = axes_[kHeight].value;
  for (size_t i = 0; i < axes_.size(); ++i) {
    Axis& x = axes_[i];
    const double sum = x.p_value + Squared(i == kAspect ? 1e-1 : kPlace * height);
    const double gain_value = x.p_value / sum;
    const double gain_speed = x.p_both / sum;
    const double surprise = z[i] - x.value;
    x.value += gain_value * surprise;
    x.speed += gain_speed * surprise;
    x.p_speed -= gain_speed * x.p_both;
    x.p_both -= gain_value * x.p_both;
    x.p_value -= gain_value * x.p_value;
  }
}

PixelBox BoxFilter::box() const {
  const double half_width = axes_[kAspect].value * axes_[kHeight].value / 2;
  const double half_height = axes_[kHeight].value / 2;
  return {axes_[0].value - half_width, axes_[1].value - half_height, axes_[0].value + half_width,
          axes_[1].value + half_height};
}

}  // namespace moka
