// Layouts are known by the names that programs give: one is taken where all that it needs is there.
#include "tools/new/layouts.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/list_text.h"
#include "data/labels/annotated_layout.h"
#include "data/labels/mask_folders.h"
#include "data/labels/yaml_names.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// "kind:parts" of an import, and not a path.
bool IsImportWord(const std::string& source) {
  std::error_code ignored;
  return source.find(':') != std::string::npos && !fs::exists(source, ignored);
}

// "a, b, c, ..": what a folder holds.
std::string Seen(const fs::path& folder) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  for (const fs::path& entry : SortedEntries(folder)) {
    names.push_back(Printable(entry.filename().string()) + (IsFolder(entry) ? "/" : ""));
    if (names.size() > kShown) break;
  }
  if (names.empty()) return "it is empty";
  if (names.size() > kShown) names.back() = "...";
  return StrCat("it holds ", Join(names, ", "));
}

Error NoLayout(const std::string& source, const std::string& expected) {
  std::error_code ignored;
  if (!fs::exists(source, ignored)) return Error(ErrorKind::kNoInput, StrCat(Printable(source), " does not exist"));
  return Error(
      ErrorKind::kBadData, {},
      StrCat(Printable(source), ": no layout that is known", IsFolder(source) ? StrCat("; ", Seen(source)) : ""),
      StrCat("expected ", expected, ", or a source of moka data import"));
}

// Gives YOLO's parts a file of the classes' names, in `made`, where only a data.yaml has them. Errors: kBadData.
void NameYoloClasses(const fs::path& root, const fs::path& made, std::vector<PartSource>& parts) {
  if (!parts.front().source.ends_with(kClassesToName)) return;
  std::vector<std::string> names;
  for (const char* name : {"data.yaml", "dataset.yaml", "data.yml"}) {
    std::error_code failed;
    if (names.empty() && fs::is_regular_file(root / name, failed)) names = NamesInYaml(root / name);
  }
  if (names.empty()) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(root.string()), ": no file has the classes' names of YOLO's numbers"),
                "expected classes.txt with a name a line, or data.yaml with names");
  }
  const fs::path file = made / kMadeNames;
  PlaceFile(file, Join(names, "\n") + "\n");
  for (PartSource& part : parts) {
    part.source.replace(part.source.size() - kClassesToName.size(), kClassesToName.size(), "," + file.string());
  }
}

fs::path MaskNames(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"classes.txt", "labels.txt", "class_names.txt"}) {
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
  }
  return {};
}

// `kind`: "masks" or "instances", of which the first has names of classes.
std::vector<PartSource> MaskParts(const fs::path& folder, std::string_view kind) {
  const std::string names = kind == "masks" ? MaskNames(folder).string() : std::string();
  const auto source = [&](const fs::path& pictures, const fs::path& masks) {
    return StrCat(kind, ":", pictures.string(), ",", masks.string(), names.empty() ? "" : ",,", names);
  };
  std::vector<PartSource> parts;
  for (const MaskFolders& found : MaskFoldersOf(folder))
    parts.push_back({found.part, source(found.pictures, found.masks)});
  return parts;
}

}  // namespace

std::vector<PartSource> FindBoxes(const std::string& source, const fs::path& folder) {
  if (IsImportWord(source)) return {{"train", source}};
  const std::string expected =
      "PASCAL VOC's (Annotations, JPEGImages, ImageSets/Main/train.txt), COCO's (_annotations.coco.json in train and "
      "valid, or annotations/instances_train.json) or YOLO's (images, labels, classes.txt)";
  std::error_code ignored;
  if (!fs::exists(source, ignored)) throw NoLayout(source, expected);
  AnnotatedLayout layout = AnnotatedLayoutOf(source);
  if (layout.name.empty()) throw NoLayout(source, expected);
  if (layout.parts.empty() || layout.parts.front().part != "train") {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(source), ": ", layout.name, "'s layout without a part for the training"),
                StrCat("expected ", expected));
  }
  NameYoloClasses(layout.root, folder, layout.parts);
  return layout.parts;
}

fs::path NumberBoxClasses(const PictureFacts& first, const fs::path& folder, std::vector<PartSource>& sources) {
  const auto& names = first.schema().box_class();
  std::string lines;
  for (int i = 1; i < names.size(); ++i) lines += names[i] + "\n";
  for (PartSource& part : sources) {
    if (!part.source.starts_with("voc:") || std::ranges::count(part.source, ',') != 1) continue;
    PlaceFile(folder / kMadeNames, lines);
    part.source += StrCat(",", (folder / kMadeNames).string());
  }
  return {};
}

std::vector<PartSource> FindMasks(const std::string& source, const fs::path& /*folder*/) {
  if (IsImportWord(source)) return {{"train", source}};
  const std::string expected =
      "images and masks (PNGs of the same names, a class a pixel), or train and val with both, or train and trainannot";
  if (!IsFolder(source)) throw NoLayout(source, expected);
  std::vector<PartSource> parts = MaskParts(source, "masks");
  if (parts.empty()) throw NoLayout(source, expected);
  const fs::path masks = Split(parts.front().source, ',').at(1);
  if (masks.filename() == kNumbersFolder || masks.parent_path().filename() == kNumbersFolder) {
    throw Error(
        ErrorKind::kBadData, {},
        StrCat(Printable(source), ": a folder \"", kNumbersFolder, "\" has numbers of objects, not classes of pixels"),
        "moka new instances takes them");
  }
  return parts;
}

std::vector<PartSource> FindInstances(const std::string& source, const fs::path& /*folder*/) {
  if (IsImportWord(source)) return {{"train", source}};
  const std::string expected =
      "COCO's JSON with outlines (annotations/instances_train.json, or _annotations.coco.json in train and valid), or "
      "images and masks (PNGs of the same names, a number an object), or train and val with both";
  if (!IsFolder(source)) throw NoLayout(source, expected);
  const AnnotatedLayout layout = AnnotatedLayoutOf(source);
  if (layout.name == "COCO" && !layout.parts.empty() && layout.parts.front().part == "train") return layout.parts;
  std::vector<PartSource> parts = MaskParts(source, "instances");
  if (parts.empty()) throw NoLayout(source, expected);
  return parts;
}

fs::path NumberMaskValues(const PictureFacts& first, const fs::path& folder, std::vector<PartSource>& sources) {
  constexpr int64_t kIgnored = 255;
  const std::map<int64_t, int64_t>& pixels = first.mask_pixels();
  if (pixels.empty() || first.schema().mask_class_size() > 0) return {};
  if (std::string fault = SmoothedMaskFault(pixels); !fault.empty())
    throw Error(ErrorKind::kBadData, {}, std::move(fault), kSmoothedMaskHelp);
  const bool is_two = pixels.size() == 2 && pixels.contains(0) && pixels.contains(kIgnored);
  const int64_t highest =
      pixels.contains(kIgnored) && pixels.size() > 1 ? std::prev(pixels.end(), 2)->first : pixels.rbegin()->first;
  const bool are_classes = !is_two && highest < 2 * std::ssize(pixels) + 8;  // some may be met in other parts only
  if (are_classes) return {};
  if (!is_two && pixels.contains(kIgnored)) {
    std::vector<std::string> values;
    for (const auto& [value, count] : pixels) values.push_back(StrCat(value));
    throw Error(ErrorKind::kBadData, {},
                StrCat("the masks have the values ", Join(values, ", "), ", which are no classes from 0 on"),
                "classes.txt beside the folders names them, in lines \"VALUE NAME\"");
  }
  std::string lines;
  for (const auto& [value, count] : pixels) {
    lines += is_two ? StrCat(value, value == 0 ? " background\n" : " object\n") : StrCat(value, " value_", value, "\n");
  }
  const fs::path file = folder / kMadeNames;
  PlaceFile(file, lines);
  for (PartSource& part : sources) {
    const auto commas = std::ranges::count(part.source, ',');
    if (part.source.starts_with("masks:") && commas < 3) {
      part.source += std::string(static_cast<size_t>(3 - commas), ',') + file.string();
    }
  }
  return {};
}

}  // namespace moka
