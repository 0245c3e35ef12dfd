// Changes of colour and size that training on boxes makes to an image (SSD's distortion and padding).
#pragma once

#include <array>
#include <cstdint>

#include "data/image/image.h"

namespace moka {

// Values are cut to 0..255 after each step.
void AddToPixels(float delta, Image& image);
void MultiplyPixels(float factor, Image& image);
// These change colour images only (others stay): hue in OpenCV's units of two degrees, saturation by a factor.
void ShiftHue(float delta, Image& image);
void MultiplySaturation(float factor, Image& image);
// Channel c becomes what channel order[c] was. Requires: 3 channels.
void ReorderChannels(const std::array<int, 3>& order, Image& image);

struct ImageMargins {
  int64_t top = 0;
  int64_t bottom = 0;
  int64_t left = 0;
  int64_t right = 0;
};
enum class Padding { kConstant, kMirrored, kNearest };
// `values`, one a channel, fill the margins when constant.
void PadImage(const Image& from, const ImageMargins& margins, Padding padding, const std::array<float, 3>& values,
              Image& to);
void CropImage(const Image& from, const ImageWindow& window, Image& to);

}  // namespace moka
