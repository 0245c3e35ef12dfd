// Pictures whose values are the classes of pixels.
#pragma once

#include <string_view>

#include "data/image/image.h"

namespace moka {

// The numbers of a label picture's pixels: a palette's are its indices, whatever its colours, and grey levels are what
// they are. Where that differs from the brightness that Caffe takes, or where colours become brightness, a warning says
// so once, with the picture's name. Errors: kBadData for a number above 255, and those of decoding.
void DecodeClassPicture(std::string_view file, std::string_view name, ImageDecoder& decoder, Image& numbers);

}  // namespace moka
