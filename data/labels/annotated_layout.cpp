// A layout is told by two folders that belong together: one alone may as well be a class.
#include "data/labels/annotated_layout.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/text.h"
#include "data/files/file_tree.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

bool IsFolder(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(path, failed);
}

// The files of a folder that end so, in order; none where there is no such folder.
std::vector<fs::path> FilesEndingIn(const fs::path& folder, std::string_view ending) {
  if (!IsFolder(folder)) return {};
  std::vector<fs::path> files = SortedEntries(folder);
  std::erase_if(files, [&](const fs::path& file) { return !file.filename().string().ends_with(ending); });
  return files;
}

std::vector<std::string> VocSources(const fs::path& root) {
  if (FilesEndingIn(root / "Annotations", ".xml").empty() || !IsFolder(root / "JPEGImages")) return {};
  std::vector<std::string> sources;
  for (const fs::path& list : FilesEndingIn(root / "ImageSets" / "Main", ".txt")) {
    // Lists of one class, such as cat_train.txt, have a number beside each name.
    const std::string split = list.stem().string();
    if (split.find('_') == std::string::npos) sources.push_back(StrCat("voc:", root.string(), ",", split));
  }
  if (sources.empty()) sources.push_back(StrCat("voc:", root.string(), ",SPLIT"));
  return sources;
}

// COCO's own layout, and that of exports with a file of annotations among each part's pictures.
std::vector<std::string> CocoSources(const fs::path& root) {
  std::vector<std::string> sources;
  for (const fs::path& file : FilesEndingIn(root / "annotations", ".json")) {
    std::string part = file.stem().string();
    constexpr std::string_view kInstances = "instances_";
    if (part.starts_with(kInstances)) part.erase(0, kInstances.size());
    for (const fs::path& pictures : {root / part, root / "images" / part, root / "images"}) {
      if (!IsFolder(pictures)) continue;
      sources.push_back(StrCat("coco:", file.string(), ",", pictures.string()));
      break;
    }
  }
  if (!sources.empty()) return sources;
  std::vector<fs::path> parts = {root};
  for (const fs::path& entry : SortedEntries(root)) {
    if (IsFolder(entry)) parts.push_back(entry);
  }
  for (const fs::path& part : parts) {
    for (const fs::path& file : FilesEndingIn(part, ".coco.json"))
      sources.push_back(StrCat("coco:", file.string(), ",", part.string()));
  }
  return sources;
}

std::string YoloNames(const fs::path& root, const fs::path& labels) {
  for (const fs::path& file : {labels / "classes.txt", root / "classes.txt"}) {
    std::error_code failed;
    if (fs::exists(file, failed)) return file.string();
  }
  const std::vector<fs::path> names = FilesEndingIn(root, ".names");
  return names.size() == 1 ? names[0].string() : "CLASSES";
}

// images/PART beside labels/PART, or PART/images beside PART/labels.
std::vector<std::string> YoloSources(const fs::path& root) {
  static constexpr std::array<const char*, 5> kParts = {"", "train", "val", "valid", "test"};
  std::vector<std::string> sources;
  const auto add = [&](const fs::path& pictures, const fs::path& labels) {
    if (!IsFolder(pictures) || FilesEndingIn(labels, ".txt").empty()) return false;
    sources.push_back(StrCat("yolo:", pictures.string(), ",", labels.string(), ",", YoloNames(root, labels)));
    return true;
  };
  for (const char* part : kParts) {
    if (*part == '\0') {
      if (add(root / "images", root / "labels")) return sources;
    } else if (!add(root / "images" / part, root / "labels" / part)) {
      (void)add(root / part / "images", root / part / "labels");
    }
  }
  return sources;
}

AnnotatedLayout LayoutAt(const fs::path& root) {
  if (auto sources = VocSources(root); !sources.empty()) return {"VOC", std::move(sources)};
  if (auto sources = CocoSources(root); !sources.empty()) return {"COCO", std::move(sources)};
  if (auto sources = YoloSources(root); !sources.empty()) return {"YOLO", std::move(sources)};
  return {};
}

}  // namespace

AnnotatedLayout AnnotatedLayoutOf(const fs::path& folder) {
  AnnotatedLayout layout = LayoutAt(folder);
  if (!layout.name.empty()) return layout;
  std::vector<fs::path> entries = SortedEntries(folder);
  std::erase_if(entries, [](const fs::path& entry) { return !IsFolder(entry); });
  return entries.size() == 1 ? LayoutAt(entries[0]) : layout;
}

}  // namespace moka
