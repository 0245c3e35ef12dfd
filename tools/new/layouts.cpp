// Layouts are known by the names that programs give: one is taken where all that it needs is there.
#include "tools/new/layouts.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/list_text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kParts = {"train", "val", "test"};

// "kind:parts" of an import, and not a path.
bool IsImportWord(const std::string& source) {
  std::error_code ignored;
  return source.find(':') != std::string::npos && !fs::exists(source, ignored);
}

bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The first of these folders that is there; empty: none.
fs::path FolderOf(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (IsFolder(folder / name)) return folder / name;
  }
  return {};
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

// The splits of VOC's lists that are there: train with val and test, or all that has boxes.
std::vector<PartSource> VocParts(const std::string& root, const std::string& lists) {
  const FileTree tree(root);
  std::vector<PartSource> parts;
  for (const std::string_view part : kParts) {
    if (tree.Has(StrCat(lists, part, ".txt"))) parts.push_back({std::string(part), StrCat("voc:", root, ",", part)});
  }
  if (!parts.empty() && parts.front().part == "train") return parts;
  for (const char* all : {"trainval", "default", "all"}) {
    if (tree.Has(StrCat(lists, all, ".txt"))) return {{"train", StrCat("voc:", root, ",", all)}};
  }
  return {};
}

// A file of classes' names beside YOLO's folders; names that data.yaml has go to one in `made`. Empty: none.
fs::path YoloNames(const fs::path& folder, const fs::path& made) {
  std::error_code ignored;
  for (const char* name : {"classes.txt", "obj.names", "labels.txt", "labels/classes.txt"}) {
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
  }
  for (const char* name : {"data.yaml", "dataset.yaml", "data.yml"}) {
    if (!fs::is_regular_file(folder / name, ignored)) continue;
    std::vector<std::string> names;
    bool is_in = false;
    for (const std::string& text : Split(ReadListText(folder / name), '\n')) {
      std::string line(Trim(text.substr(0, text.find('#'))));
      const auto unquoted = [](std::string_view word) {
        word = Trim(word);
        while (!word.empty() && (word.front() == '"' || word.front() == '\'')) word.remove_prefix(1);
        while (!word.empty() && (word.back() == '"' || word.back() == '\'')) word.remove_suffix(1);
        return std::string(word);
      };
      if (line.starts_with("names:")) {
        is_in = true;
        line = Trim(line.substr(6));
        if (line.starts_with("[") && line.ends_with("]")) {
          for (const std::string& word : Split(line.substr(1, line.size() - 2), ',')) names.push_back(unquoted(word));
          break;
        }
      } else if (is_in && line.starts_with("- ")) {
        names.push_back(unquoted(line.substr(2)));
      } else if (is_in && !line.empty() && text.starts_with(" ") && line.find(':') != std::string::npos) {
        names.push_back(unquoted(line.substr(line.find(':') + 1)));
      } else if (is_in && !line.empty()) {
        break;
      }
    }
    if (names.empty()) continue;
    PlaceFile(made / "names.txt", Join(names, "\n") + "\n");
    return made / "names.txt";
  }
  return {};
}

bool HoldsYolo(const fs::path& folder) { return IsFolder(folder / "images") && IsFolder(folder / "labels"); }

bool HoldsCoco(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "_annotations.coco.json", ignored);
}

bool IsAnyPart(const fs::path& /*folder*/) { return true; }

std::vector<PartSource> YoloParts(const fs::path& folder, const fs::path& made) {
  std::vector<PartSource> parts;
  const auto source = [](const fs::path& images, const fs::path& labels) {
    return StrCat("yolo:", images.string(), ",", labels.string());
  };
  for (const PartSource& part : PartFolders(folder, HoldsYolo)) {
    parts.push_back({part.part, source(fs::path(part.source) / "images", fs::path(part.source) / "labels")});
  }
  if (parts.empty() && HoldsYolo(folder)) {
    for (const PartSource& part : PartFolders(folder / "images", IsAnyPart)) {
      parts.push_back({part.part, source(part.source, folder / "labels" / fs::path(part.source).filename())});
    }
    if (parts.empty()) parts.push_back({"train", source(folder / "images", folder / "labels")});
  }
  if (parts.empty()) return {};
  const fs::path names = YoloNames(folder, made);
  if (names.empty()) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(folder.string()), ": no file has the classes' names of YOLO's numbers"),
                "expected classes.txt with a name a line, or data.yaml with names");
  }
  for (PartSource& part : parts) part.source += StrCat(",", names.string());
  return parts;
}

std::vector<PartSource> CocoParts(const fs::path& folder) {
  std::vector<PartSource> parts;
  for (const PartSource& part : PartFolders(folder, HoldsCoco)) {
    parts.push_back({part.part, StrCat("coco:", part.source, "/_annotations.coco.json,", part.source)});
  }
  if (!parts.empty()) return parts;
  const fs::path annotations = IsFolder(folder / "annotations") ? folder / "annotations" : folder;
  constexpr std::string_view kInstances = "instances_";
  for (const std::string_view part : kParts) {
    for (const fs::path& file : ListFiles(annotations, ".json")) {
      const std::string stem = file.stem().string();
      if (!stem.starts_with(StrCat(kInstances, part))) continue;
      const fs::path own = folder / stem.substr(kInstances.size());
      const fs::path pictures = IsFolder(own) ? own : FolderOf(folder, {"images", "pictures"});
      if (!pictures.empty())
        parts.push_back({std::string(part), StrCat("coco:", file.string(), ",", pictures.string())});
    }
  }
  if (!parts.empty() && parts.front().part == "train") return parts;
  const std::vector<fs::path> files = ListFiles(annotations, ".json");
  const fs::path pictures = FolderOf(folder, {"images", "pictures"});
  if (files.size() == 1 && !pictures.empty()) {
    return {{"train", StrCat("coco:", files[0].string(), ",", pictures.string())}};
  }
  return {};
}

// The folder of the masks that belong to a folder of pictures beside it, by its name; empty: none.
fs::path MasksBeside(const fs::path& folder) {
  return FolderOf(folder, {"masks", "mask", "labels", "label", "annotations", "annots", "SegmentationClass"});
}
fs::path PicturesBeside(const fs::path& folder) {
  return FolderOf(folder, {"images", "image", "pictures", "img", "imgs", "JPEGImages"});
}
bool HoldsMasks(const fs::path& folder) { return !MasksBeside(folder).empty() && !PicturesBeside(folder).empty(); }

fs::path MaskNames(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"classes.txt", "labels.txt", "class_names.txt"}) {
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
  }
  return {};
}

std::vector<PartSource> MaskParts(const fs::path& folder) {
  const std::string names = MaskNames(folder).string();
  const auto source = [&](const fs::path& pictures, const fs::path& masks) {
    return StrCat("masks:", pictures.string(), ",", masks.string(), names.empty() ? "" : ",,", names);
  };
  std::vector<PartSource> parts;
  for (const PartSource& part : PartFolders(folder, HoldsMasks)) {
    parts.push_back({part.part, source(PicturesBeside(part.source), MasksBeside(part.source))});
  }
  if (!parts.empty()) return parts;
  // train and trainannot, val and valannot: CamVid's.
  for (const PartSource& part : PartFolders(folder, IsAnyPart)) {
    const fs::path masks = FolderOf(folder, {(fs::path(part.source).filename().string() + "annot").c_str(),
                                             (fs::path(part.source).filename().string() + "_masks").c_str(),
                                             (fs::path(part.source).filename().string() + "_labels").c_str()});
    if (!masks.empty()) parts.push_back({part.part, source(part.source, masks)});
  }
  if (!parts.empty() && parts.front().part == "train") return parts;
  if (!HoldsMasks(folder)) return {};
  parts.clear();
  const fs::path pictures = PicturesBeside(folder);
  for (const PartSource& part : PartFolders(pictures, IsAnyPart)) {
    const fs::path masks = MasksBeside(folder) / fs::path(part.source).filename();
    if (IsFolder(masks)) parts.push_back({part.part, source(part.source, masks)});
  }
  if (!parts.empty() && parts.front().part == "train") return parts;
  return {{"train", source(pictures, MasksBeside(folder))}};
}

}  // namespace

std::vector<PartSource> FindBoxes(const std::string& source, const fs::path& folder) {
  constexpr const char* kLists = "ImageSets/Main/";
  if (IsImportWord(source)) return {{"train", source}};
  const std::string expected =
      "PASCAL VOC's (Annotations, JPEGImages, ImageSets/Main/train.txt), COCO's (_annotations.coco.json in train and "
      "valid, or annotations/instances_train.json) or YOLO's (images, labels, classes.txt)";
  std::error_code ignored;
  if (!fs::exists(source, ignored)) throw NoLayout(source, expected);
  if (IsArchiveName(source) ||
      (IsFolder(fs::path(source) / "Annotations") && IsFolder(fs::path(source) / "JPEGImages"))) {
    std::vector<PartSource> parts = VocParts(source, kLists);
    if (!parts.empty()) return parts;
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(source), ": ", kLists, " has no list of the pictures"),
                "expected train.txt and val.txt, or trainval.txt, with a picture's name a line");
  }
  if (!IsFolder(source)) throw NoLayout(source, expected);
  if (std::vector<PartSource> parts = YoloParts(source, folder); !parts.empty()) return parts;
  if (std::vector<PartSource> parts = CocoParts(source); !parts.empty()) return parts;
  throw NoLayout(source, expected);
}

fs::path NumberBoxClasses(const PictureFacts& first, const fs::path& folder, std::vector<PartSource>& sources) {
  const auto& names = first.schema().box_class();
  std::string lines;
  for (int i = 1; i < names.size(); ++i) lines += names[i] + "\n";
  for (PartSource& part : sources) {
    if (!part.source.starts_with("voc:") || std::ranges::count(part.source, ',') != 1) continue;
    PlaceFile(folder / "names.txt", lines);
    part.source += StrCat(",", (folder / "names.txt").string());
  }
  return {};
}

std::vector<PartSource> FindMasks(const std::string& source, const fs::path& /*folder*/) {
  if (IsImportWord(source)) return {{"train", source}};
  const std::string expected =
      "images and masks (PNGs of the same names, a class a pixel), or train and val with both, or train and trainannot";
  if (!IsFolder(source)) throw NoLayout(source, expected);
  std::vector<PartSource> parts = MaskParts(source);
  if (parts.empty()) throw NoLayout(source, expected);
  return parts;
}

fs::path NumberMaskValues(const PictureFacts& first, const fs::path& folder, std::vector<PartSource>& sources) {
  constexpr int64_t kIgnored = 255;
  const std::map<int64_t, int64_t>& pixels = first.mask_pixels();
  if (pixels.empty() || first.schema().mask_class_size() > 0) return {};
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
  const fs::path file = folder / "names.txt";
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
