// The layouts in which pictures with boxes lie in folders, told by the folders' names: VOC's Annotations beside
// JPEGImages, COCO's annotations beside folders of pictures, YOLO's labels beside images.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/labels/set_parts.h"

namespace moka {

// Stands at the end of a source of YOLO's whose file of classes' names is not there.
inline constexpr std::string_view kClassesToName = ",CLASSES";

struct AnnotatedLayout {
  std::string name;                    // "VOC"; empty: none of them
  std::filesystem::path root = {};     // where it was found: the folder, or the only folder in it
  std::vector<PartSource> parts = {};  // may be none of VOC's, whose lists name them
};

// Looks at the names in a folder or in the only folder in it, or, of VOC's layout, in an archive, and reads no
// annotation. Errors: kNoInput; kBadData for a damaged archive and as PartFolders.
AnnotatedLayout AnnotatedLayoutOf(const std::filesystem::path& path);

}  // namespace moka
