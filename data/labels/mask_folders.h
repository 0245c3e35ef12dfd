// Pictures and masks in folders beside each other, told by the folders' names, and what masks' values say of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace moka {

// The folder of masks with a number an object, where others have a class a pixel.
inline constexpr const char* kNumbersFolder = "instances";

// A part of a set ("train") in two folders.
struct MaskFolders {
  std::string part;
  std::filesystem::path pictures;
  std::filesystem::path masks;
};

// images and masks in a folder or in each of its parts, train and trainannot, or images/train and masks/train; empty:
// none of them. Looks at folders' names alone. Errors: kBadData as PartFolders.
std::vector<MaskFolders> MaskFoldersOf(const std::filesystem::path& folder);

// Whether most of the pictures have a file of the same name among the masks.
bool HaveEqualNames(const MaskFolders& folders);

// The fault of masks whose borders were smoothed, so that most of their values are no classes; empty: nothing.
// pixels: how many there are of each value. Two values have most pixels then, and all others lie between these two, all
// over the range.
std::string SmoothedMaskFault(const std::map<int64_t, int64_t>& pixels);
inline constexpr const char* kSmoothedMaskHelp =
    "save the masks without smoothing, resizing or JPEG: each pixel of a PNG has the number of its class";

}  // namespace moka
