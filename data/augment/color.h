// Changes of the colours of 8-bit pictures (B,G,R or grey), with the arithmetic of Pillow's ImageEnhance and ImageOps,
// which torchvision and the policies' papers use; the hue in floats, as torchvision turns tensors' hue. What changes
// colours alone leaves grey pictures as they are.
#pragma once

#include <array>

#include "data/image/image.h"

namespace moka {

// Between a duller picture (factor 0) and this one (1), and beyond it: values are cut off after the decimal point, and
// to 0..255. The duller picture is black; the grey of the mean of all pixels; the grey picture; a smoothed picture.
void ScaleBrightness(float factor, Image& image);
void ScaleContrast(float factor, Image& image);
void ScaleSaturation(float factor, Image& image);
// The 3x3 mean that counts the centre five times; pixels at the border stay.
void ScaleSharpness(float factor, Image& image, Image& scratch);

// Turned by so many circles.
void TurnHue(float turns, Image& image);
// Adds one number to each channel, rounded and cut to 0..255. Requires: 3 channels.
void AddToChannels(const std::array<double, 3>& bgr, Image& image);

// Keeps the upper `bits` of each value.
void Posterize(int bits, Image& image);
// Values from `threshold` up become 255 less the value.
void Solarize(double threshold, Image& image);
void Invert(Image& image);
// Each channel's smallest value becomes 0, its largest 255.
void StretchContrast(Image& image);
// Each channel's values become about equally frequent.
void Equalize(Image& image);

}  // namespace moka
