// A record's crop as an 8-bit picture, for changes that come before the normalising write.
#pragma once

#include <array>

#include "data/image/image.h"
#include "data/image/resample.h"

namespace moka {

// The fields of a cut, for CutPicture.
struct PictureCut {
  ImageWindow window = {};  // may reach beyond the picture
  bool mirror = false;
  std::array<uint8_t, 3> beyond = {};  // the channels' values there
};
// Errors: kBadData for records of floats, or of other than 1 or 3 channels.
void CutPicture(const PixelView& from, const PictureCut& cut, Image& to);

}  // namespace moka
