// Rows are copied as they are where the crop allows it; pixels beyond the picture and mirrored ones go one by one.
// Nothing is interpolated.
#include "data/image/cut.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {

void CutPicture(const PixelView& from, const PictureCut& cut, Image& to) {
  if (from.bytes == nullptr || (from.channels != 1 && from.channels != 3)) {
    throw Error(ErrorKind::kBadData, {},
                StrCat("random changes need 8-bit records of 1 or 3 channels, found ",
                       from.bytes == nullptr ? "floats of " : "", from.channels),
                "take transform_param.augment out of the layer");
  }
  const ImageWindow& window = cut.window;
  to.Resize(window.width, window.height, from.channels);
  const bool planar = from.order == PixelView::Order::kPlanar;
  const int64_t step = planar ? 1 : from.channels;
  const int64_t channel_step = planar ? from.height * from.width : 1;
  uint8_t* target = to.pixels.data();
  const bool is_whole_rows = !planar && !cut.mirror && window.x >= 0 && window.x + window.width <= from.width;
  for (int64_t y = window.y; y < window.y + window.height; ++y) {
    if (is_whole_rows && y >= 0 && y < from.height) {
      target = std::copy_n(from.bytes + (y * from.width + window.x) * step, window.width * step, target);
      continue;
    }
    for (int64_t i = 0; i < window.width; ++i, target += from.channels) {
      const int64_t x = window.x + (cut.mirror ? window.width - 1 - i : i);
      const bool inside = y >= 0 && y < from.height && x >= 0 && x < from.width;
      const uint8_t* source = from.bytes + (y * from.width + x) * step;
      for (int64_t c = 0; c < from.channels; ++c) {
        target[c] = inside ? source[c * channel_step] : cut.beyond[static_cast<size_t>(c)];
      }
    }
  }
}

}  // namespace moka
