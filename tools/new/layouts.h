// Layouts of pictures with boxes or masks as people have them, in the words of `moka data import`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/new/new_data.h"

namespace moka {

// The file of classes' names that these make where a source has them elsewhere; it goes once the databases have them.
inline constexpr const char* kMadeNames = "names.txt";

// PASCAL VOC's folder or archive, COCO's JSON files, or YOLO's text files; or such words themselves. `folder` takes a
// file of names that YOLO's data.yaml has. Errors: kBadData, kNoInput with what was seen and what was expected.
std::vector<PartSource> FindBoxes(const std::string& source, const std::filesystem::path& folder);
// Gives all parts of VOC's layout one file of their classes' names, in `folder`.
std::filesystem::path NumberBoxClasses(const PictureFacts& first, const std::filesystem::path& folder,
                                       std::vector<PartSource>& sources);

// Pictures and masks in folders beside each other (images and masks, train and trainannot, ...), or such words
// themselves. Errors: as above.
std::vector<PartSource> FindMasks(const std::string& source, const std::filesystem::path& folder);
// COCO's JSON with outlines, or pictures and PNGs of objects' numbers in folders beside each other, or such words
// themselves. Errors: as above.
std::vector<PartSource> FindInstances(const std::string& source, const std::filesystem::path& folder);
// Names the values of masks that are no classes from 0 on (0 and 255, say) in a file, for all parts.
std::filesystem::path NumberMaskValues(const PictureFacts& first, const std::filesystem::path& folder,
                                       std::vector<PartSource>& sources);

}  // namespace moka
