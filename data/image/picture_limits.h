// How large a picture may be made: what imports, lists, nets, cards and flags may ask for alike. A picture of a few
// bytes would otherwise take as much memory as anybody writes down.
#pragma once

#include <cstdint>

namespace moka {

inline constexpr int64_t kMostPictureSide = int64_t{1} << 14U;
inline constexpr int64_t kMostPicturePixels = int64_t{1} << 26U;

constexpr bool IsPictureSize(int64_t height, int64_t width) {
  return height >= 1 && width >= 1 && height <= kMostPictureSide && width <= kMostPictureSide &&
         height * width <= kMostPicturePixels;
}

}  // namespace moka
