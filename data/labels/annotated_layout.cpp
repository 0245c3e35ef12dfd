// A layout is told by two folders that belong together: one alone may as well be a class.
#include "data/labels/annotated_layout.h"

#include <algorithm>

#include "core/text.h"
#include "data/files/file_tree.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The files of a folder that end so, in order; none where there is no such folder.
std::vector<fs::path> FilesEndingIn(const fs::path& folder, std::string_view ending) {
  if (!IsFolder(folder)) return {};
  std::vector<fs::path> files = SortedEntries(folder);
  std::erase_if(files, [&](const fs::path& file) { return !file.filename().string().ends_with(ending); });
  return files;
}

// The splits of VOC's lists that are there: train with val and test, or all that has boxes.
std::vector<PartSource> VocParts(const fs::path& root) {
  const FileTree tree(root);
  const auto has = [&](std::string_view split) { return tree.Has(StrCat("ImageSets/Main/", split, ".txt")); };
  const auto source = [&](std::string_view split) { return StrCat("voc:", root.string(), ",", split); };
  std::vector<PartSource> parts;
  for (const std::string_view split : {"train", "val", "test"}) {
    if (has(split)) parts.push_back({std::string(split), source(split)});
  }
  if (!parts.empty() && parts.front().part == "train") return parts;
  for (const std::string_view all : {"trainval", "default", "all"}) {
    if (has(all)) return {{"train", source(all)}};
  }
  return {};
}

bool HoldsVoc(const fs::path& root) {
  return !FilesEndingIn(root / "Annotations", ".xml").empty() && IsFolder(root / "JPEGImages");
}

// A file of annotations among each part's pictures, as exports have them.
constexpr std::string_view kCocoAmongPictures = "_annotations.coco.json";

bool HoldsCoco(const fs::path& folder) {
  std::error_code failed;
  return fs::is_regular_file(folder / kCocoAmongPictures, failed);
}

std::vector<PartSource> CocoParts(const fs::path& root) {
  const auto source = [](const fs::path& file, const fs::path& pictures) {
    return StrCat("coco:", file.string(), ",", pictures.string());
  };
  std::vector<PartSource> parts = PartFolders(root, HoldsCoco);
  for (PartSource& part : parts) part.source = source(fs::path(part.source) / kCocoAmongPictures, part.source);
  if (!parts.empty()) return parts;
  constexpr std::string_view kInstances = "instances_";
  const std::vector<fs::path> files = FilesEndingIn(root / "annotations", ".json");
  for (const fs::path& file : files) {
    std::string stem = file.stem().string();
    const bool has_instances = stem.starts_with(kInstances);
    if (has_instances) stem.erase(0, kInstances.size());
    const fs::path own = IsFolder(root / stem) ? root / stem : root / "images" / stem;
    const fs::path pictures = IsFolder(own) ? own : root / "images";
    if (!IsFolder(pictures) || !(has_instances || IsFolder(own) || files.size() == 1)) continue;
    // A year follows, as in train2017.
    const std::string_view part = PartNamed(std::string_view(stem).substr(0, stem.find_first_of("0123456789")));
    if (part.empty() && files.size() > 1) continue;
    parts.push_back({std::string(part.empty() ? "train" : part), source(file, pictures)});
  }
  std::ranges::stable_sort(parts, {}, [](const PartSource& one) { return one.part != "train"; });
  return parts;
}

bool HoldsYolo(const fs::path& folder) {
  return IsFolder(folder / "images") && !FilesEndingIn(folder / "labels", ".txt").empty();
}

bool IsAnyFolder(const fs::path& /*folder*/) { return true; }

std::string YoloNames(const fs::path& root) {
  for (const char* name : {"classes.txt", "obj.names", "labels.txt", "labels/classes.txt"}) {
    std::error_code failed;
    if (fs::is_regular_file(root / name, failed)) return StrCat(",", (root / name).string());
  }
  return std::string(kClassesToName);
}

// images/PART beside labels/PART, or PART/images beside PART/labels.
std::vector<PartSource> YoloParts(const fs::path& root) {
  const std::string names = YoloNames(root);
  const auto source = [&](const fs::path& images, const fs::path& labels) {
    return StrCat("yolo:", images.string(), ",", labels.string(), names);
  };
  if (HoldsYolo(root)) return {{"train", source(root / "images", root / "labels")}};
  std::vector<PartSource> parts = PartFolders(root, HoldsYolo);
  for (PartSource& part : parts)
    part.source = source(fs::path(part.source) / "images", fs::path(part.source) / "labels");
  if (!parts.empty() || !IsFolder(root / "labels")) return parts;
  for (const PartSource& part : PartFolders(root / "images", IsAnyFolder)) {
    const fs::path labels = root / "labels" / fs::path(part.source).filename();
    if (!FilesEndingIn(labels, ".txt").empty()) parts.push_back({part.part, source(part.source, labels)});
  }
  return parts;
}

AnnotatedLayout LayoutAt(const fs::path& root) {
  if (HoldsVoc(root)) return {"VOC", root, VocParts(root)};
  if (auto parts = CocoParts(root); !parts.empty()) return {"COCO", root, std::move(parts)};
  if (auto parts = YoloParts(root); !parts.empty()) return {"YOLO", root, std::move(parts)};
  return {};
}

}  // namespace

AnnotatedLayout AnnotatedLayoutOf(const fs::path& path) {
  if (!IsFolder(path)) {
    if (!IsArchiveName(path.string())) return {};
    std::vector<PartSource> parts = VocParts(path);
    return parts.empty() ? AnnotatedLayout{} : AnnotatedLayout{"VOC", path, std::move(parts)};
  }
  AnnotatedLayout layout = LayoutAt(path);
  if (!layout.name.empty()) return layout;
  std::vector<fs::path> entries = SortedEntries(path);
  std::erase_if(entries, [](const fs::path& entry) { return !IsFolder(entry); });
  return entries.size() == 1 ? LayoutAt(entries[0]) : layout;
}

}  // namespace moka
