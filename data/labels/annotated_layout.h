// The layouts in which sets of annotated pictures lie in folders, told by the folders' names: VOC's Annotations beside
// JPEGImages, COCO's annotations beside folders of pictures, YOLO's labels beside images.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moka {

struct AnnotatedLayout {
  std::string name;                       // "VOC"; empty: none of them
  std::vector<std::string> sources = {};  // of its parts, as `moka data import` takes them: "voc:ROOT,train"
};

// Looks at the names in a folder, or in the only folder in it, and reads no annotation. A part that cannot be told,
// such as the file of YOLO's classes, stays a word in capitals in the source. Errors: kNoInput.
AnnotatedLayout AnnotatedLayoutOf(const std::filesystem::path& folder);

}  // namespace moka
