// Hue and saturation of images in the order B,G,R (DetectNet). Between B,G,R and (hue, saturation, value): value is the
// largest channel, saturation (largest - smallest) / value, hue in degrees. That is OpenCV's conversion where the value
// is positive; images whose mean is gone already have negative values too, and there the saturation keeps its sign, so
// that without a change the way back gives the pixel again (NVIDIA's CUDA kernel; its CPU code takes |value|).
#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/detectnet/ops/augmentation.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kAugmentColorOp = "augment_colour";

std::vector<TensorType> InferAugmentColor(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount(kAugmentColorOp, in, 2, 2);
  CheckFloat(kAugmentColorOp, "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() != 4 || x[1] != 3) {
    throw Error(ErrorKind::kConfig, StrCat(kAugmentColorOp, ": x must be [N,3,H,W], found ", x.ToString()));
  }
  CheckAugmentations(kAugmentColorOp, in[1], x[0]);
  return {PlainType(in[0].dtype, x)};
}

using Pixel = std::array<double, 3>;  // B, G, R

Pixel Changed(const Pixel& pixel, const PictureChange& augmentation) {
  const auto& [b, g, r] = pixel;
  const double value = std::max({b, g, r});
  const double range = value - std::min({b, g, r});
  if (value == 0 || range == 0) return {value, value, value};
  double sixths = 0;
  if (value == r) {
    sixths = (g - b) / range;
  } else if (value == g) {
    sixths = 2 + (b - r) / range;
  } else {
    sixths = 4 + (r - g) / range;
  }
  if (augmentation.turns_hue()) sixths += augmentation.hue / 60.0;
  sixths -= 6 * std::floor(sixths / 6);
  double saturation = range / value;
  if (augmentation.fades()) saturation *= augmentation.saturation;
  const double sector = std::floor(sixths);
  const double f = sixths - sector;
  const double low = value * (1 - saturation);
  const double falling = value * (1 - saturation * f);
  const double rising = value * (1 - saturation * (1 - f));
  switch (static_cast<int>(sector)) {
    case 0: return {low, rising, value};
    case 1: return {low, value, falling};
    case 2: return {rising, value, low};
    case 3: return {value, falling, low};
    case 4: return {value, low, rising};
    default: return {falling, low, value};
  }
}

void AugmentColorReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const auto plane = static_cast<size_t>(x[2] * x[3]);
  for (int64_t n = 0; n < x[0]; ++n) {
    const PictureChange augmentation = AugmentationAt(in[1], n);
    const bool is_changed = augmentation.turns_hue() || augmentation.fades();
    const double* from = in[0].values.data() + static_cast<size_t>(n) * 3 * plane;
    double* to = out[0].values.data() + static_cast<size_t>(n) * 3 * plane;
    for (size_t i = 0; i < plane; ++i) {
      Pixel pixel = {from[i], from[plane + i], from[2 * plane + i]};
      if (is_changed) pixel = Changed(pixel, augmentation);
      for (size_t c = 0; c < 3; ++c) to[c * plane + i] = pixel[c];
    }
  }
}

std::vector<OpCase> AugmentColorCases() {
  return {
      {.name = "bytes", .inputs = {Float32({3, 3, 4, 5}), Float32({3, 8})}, .attributes = {}, .low = 0, .high = 255},
      {.name = "signed",
       .inputs = {Float32({2, 3, 3, 3}), Float32({2, 8})},
       .attributes = {},
       .low = -100,
       .high = 100},
      {.name = "grey",
       .inputs = {Float32({1, 3, 2, 2}), Float32({1, 8})},
       .attributes = {},
       .low = 3,
       .high = 3,
       .ranges = {{1, 0, 1}}}};
}

}  // namespace

OpDef AugmentColorOp() {
  return {.name = "augment_colour",
          .doc =
              "(x [N,3,H,W] in the order B,G,R, augmentations [N,8]) -> y like x: the hue turned by a row's first "
              "number, in degrees, the saturation times its second.",
          .attributes = {},
          .infer = InferAugmentColor,
          .reference = AugmentColorReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kAugments,
          .cases = AugmentColorCases};
}

}  // namespace moka
