// Importer of PASCAL VOC's layout. M. Everingham et al., The PASCAL Visual Object Classes (VOC) Challenge, IJCV 2010.
#include <optional>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/left_out.h"
#include "data/files/list_text.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/annotation_file.h"
#include "data/labels/label_map.h"
#include "data/labels/sample_writing.h"
#include "data/records/sample_record.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct VocSplit {
  std::string file;  // the list's
  bool has_masks = false;
};

// Where a split's list is, and whether it is one of the pictures with masks.
VocSplit FindSplit(const FileTree& tree, const std::string& split) {
  constexpr std::string_view kSegmentation = "Segmentation/";
  const bool is_named = split.starts_with(kSegmentation);
  const std::string name = is_named ? split.substr(kSegmentation.size()) : split;
  const std::string main = StrCat("ImageSets/Main/", name, ".txt");
  if (!is_named && tree.Has(main)) return {main};
  VocSplit found{StrCat("ImageSets/Segmentation/", name, ".txt"), true};
  if (tree.Has(found.file)) return found;
  std::vector<std::string> known;
  try {
    for (const std::string& file : tree.FilesIn("ImageSets/Main")) known.push_back(StemOf(file));
  } catch (const Error&) {
    known.clear();  // no such folder
  }
  const std::string looked_at = is_named ? tree.PathOf(found.file) : tree.PathOf(main);
  throw Error(ErrorKind::kNoInput, {}, StrCat(looked_at, " does not exist"), DidYouMean(name, known));
}

struct VocPicture {
  std::string name;
  std::string picture;     // file
  std::string annotation;  // file
  std::string mask;        // file; empty: none
};

// The picture of a name, which may have folders in it.
class VocPictures {
 public:
  explicit VocPictures(const FileTree& tree) : tree_(tree) {}

  std::string FileOf(const std::string& name) {
    const fs::path path(name);
    const std::string folder =
        path.has_parent_path() ? StrCat("JPEGImages/", path.parent_path().string()) : "JPEGImages";
    const auto [found, is_new] = folders_.try_emplace(folder);
    if (is_new) found->second = PicturesIn(folder);
    const std::string file = found->second ? FileIn(*found->second, path.filename().string()) : std::string();
    // Its reading will say that it is missing.
    return file.empty() ? StrCat("JPEGImages/", name, ".jpg") : StrCat(folder, "/", file);
  }

 private:
  // VOC's pictures are JPEGs: one comes before others of its name.
  static std::string FileIn(const PicturesByStem& pictures, const std::string& stem) {
    std::string jpeg = stem + ".jpg";
    if (pictures.HasFile(jpeg)) return jpeg;
    return pictures.FileOf(stem, "splits name pictures without the extension: rename or remove one");
  }
  std::optional<PicturesByStem> PicturesIn(const std::string& folder) const {
    try {
      return PicturesByStem(tree_, folder);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kNoInput) throw;
      return std::nullopt;  // no such folder
    }
  }

  const FileTree& tree_;
  std::map<std::string, std::optional<PicturesByStem>> folders_;
};

// Lines "NAME", or "NAME FLAG" in the lists of one class, where -1 says that the picture shows none.
// These and pictures named again are told in `warnings`.
std::vector<VocPicture> ReadSplit(const FileTree& tree, const VocSplit& split, std::vector<std::string>& warnings) {
  std::vector<VocPicture> pictures;
  std::vector<int> lines;
  VocPictures files(tree);
  LeftOut left_out;
  int line_number = 0;
  for (const std::string& text : Split(ListText(tree.Read(split.file), tree.PathOf(split.file)), '\n')) {
    ++line_number;
    const std::string_view line = Trim(text);
    if (line.empty()) continue;
    const size_t blank = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view flag = Trim(line.substr(blank));
    if (flag != "" && flag != "-1" && flag != "0" && flag != "1") {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = tree.PathOf(split.file), .line = line_number},
                  StrCat("expected a name, or a name and -1, 0 or 1, found \"", Printable(line), "\""));
    }
    const std::string name(line.substr(0, blank));
    if (flag == "-1") {
      left_out.Add("pictures that the list says show none of its class (-1)", name);
      continue;
    }
    VocPicture picture{name, files.FileOf(name), StrCat("Annotations/", name, ".xml"), {}};
    if (split.has_masks) picture.mask = StrCat("SegmentationClass/", name, ".png");
    pictures.push_back(std::move(picture));
    lines.push_back(line_number);
  }
  if (pictures.empty())
    throw Error(ErrorKind::kBadData, StrCat(tree.PathOf(split.file), ": the list ",
                                            left_out.Sentences().empty() ? "is empty" : "has -1 in all lines"));
  for (std::string& sentence : left_out.Sentences()) warnings.push_back(std::move(sentence));
  std::vector<NamedLine> names;
  for (size_t i = 0; i < pictures.size(); ++i) names.push_back({pictures[i].name, lines[i]});
  if (std::string warning = RepeatedNames(tree.PathOf(split.file), names); !warning.empty()) {
    warnings.push_back(std::move(warning));
  }
  return pictures;
}

// A list of names from class 1 on, unless the first stands for class 0.
std::map<std::string, int32_t> ReadNames(const fs::path& path) {
  std::map<std::string, int32_t> labels;
  int32_t next = 1;
  int line_number = 0;
  for (const std::string& text : Split(ReadListText(path), '\n')) {
    ++line_number;
    const std::string name(Trim(text));
    if (name.empty()) continue;
    const bool is_background = labels.empty() && IsBackgroundName(name);
    if (!labels.emplace(name, is_background ? 0 : next).second) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = path.string(), .line = line_number},
                  StrCat("the class \"", Printable(name), "\" is named twice"));
    }
    if (!is_background) ++next;
  }
  if (labels.empty()) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": no names of classes"));
  return labels;
}

std::map<std::string, int32_t> ReadClasses(const fs::path& path) {
  return path.extension() == ".prototxt" ? ReadLabelMap(path, LabelMapCheck::kUnique) : ReadNames(path);
}

// The findings of a first look at all annotations.
struct Looked {
  std::set<std::string> classes;
  uint32_t crc32c = 0;
  int64_t bytes = 0;  // of pictures and masks
};

// An annotation that cannot be read names no classes: its record will be a bad one.
Looked LookThroughVoc(const FileTree& tree, const std::vector<VocPicture>& pictures, const ImportOptions& options) {
  Looked looked;
  for (const VocPicture& picture : pictures) {
    CheckImportStop(options);
    const std::string xml = tree.Has(picture.annotation) ? tree.Read(picture.annotation) : std::string();
    const int64_t mask_bytes = picture.mask.empty() ? 0 : tree.BytesOf(picture.mask);
    looked.bytes += tree.BytesOf(picture.picture) + mask_bytes;
    looked.crc32c = Crc32c(StrCat(picture.name, "\t", mask_bytes, "\n", xml), looked.crc32c);
    try {
      looked.classes.merge(ClassesInXml(xml));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kBadData) throw;
    }
  }
  return looked;
}

// The masks' classes are checked against so many names; 0: those of the masks are not known.
ImportItem ItemOf(const FileTree& tree, const VocPicture& picture, const std::map<std::string, int32_t>& labels,
                  int mask_classes) {
  ImportItem item{.name = picture.name, .file_bytes = tree.BytesOf(picture.picture)};
  item.read = [&] { return tree.Read(picture.picture); };
  item.describe_sample = [&, mask_classes](const Image& image, SampleRecord& record, RecordWarnings& warnings) {
    for (const std::string& file : {picture.annotation, picture.mask}) {
      if (file.empty() || tree.Has(file)) continue;
      throw Error(ErrorKind::kBadData, StrCat(tree.PathOf(file), " does not exist"));
    }
    InFile(tree.PathOf(picture.annotation), warnings, [&] {
      AddBoxes(ReadObjects(tree.Read(picture.annotation), AnnotationFormat::kXml, labels, {image.width, image.height},
                           warnings),
               record, warnings);
    });
    if (picture.mask.empty()) return;
    InFile(tree.PathOf(picture.mask), warnings, [&] {
      MaskValues values;
      record.set_mask(MaskFile(tree.Read(picture.mask), image, &values));
      if (mask_classes > 0) CheckMaskClasses(values, mask_classes);
    });
  };
  return item;
}

}  // namespace

ImportReport ImportVoc(const fs::path& folder, const std::string& split, const fs::path& classes, const fs::path& out,
                       const ImportOptions& options) {
  const FileTree tree(folder, [&] { CheckImportStop(options); });
  const VocSplit found = FindSplit(tree, split);
  std::vector<std::string> warnings;
  const std::vector<VocPicture> pictures = ReadSplit(tree, found, warnings);
  const Looked looked = LookThroughVoc(tree, pictures, options);
  std::map<std::string, int32_t> labels;
  if (classes.empty()) {
    for (const std::string& name : looked.classes) {
      labels.emplace(name, static_cast<int32_t>(labels.size()) + 1);
      if (!IsBackgroundName(name)) continue;
      warnings.push_back(StrCat("objects are called \"", Printable(name), "\" and become a class like others, ",
                                labels.size(), "; a file of the classes' names that begins with it makes it 0"));
    }
  } else {
    labels = ReadClasses(classes);
  }
  uint32_t crc = looked.crc32c;
  for (const auto& [name, label] : labels) crc = Crc32c(StrCat(name, "\t", label, "\n"), crc);
  const auto count = static_cast<int64_t>(pictures.size());
  RecordWriter writer(out, options,
                      {.text = StrCat("voc ", folder.string(), " ", found.file),
                       .items = count,
                       .crc32c = crc,
                       .bytes = looked.bytes,
                       .kind = RecordKind::kSample});
  SampleSchema schema = NewSchema();
  schema.set_boxes(true);
  for (const std::string& name : NamesByLabel(labels)) schema.add_box_class(name);
  if (schema.box_class_size() > 0 && schema.box_class(0) == "0") schema.set_box_class(0, "none");
  if (found.has_masks) {
    schema.set_mask(true);
    // The masks' values are VOC's own numbers, which those of the names found need not be.
    if (!classes.empty()) *schema.mutable_mask_class() = schema.box_class();
  }
  for (const int64_t i : ImportOrder(count, options)) {
    writer.Add(ItemOf(tree, pictures[static_cast<size_t>(i)], labels, schema.mask_class_size()));
  }
  ImportReport report = writer.FinishSamples(schema);
  for (std::string& warning : warnings) report.warnings.push_back(std::move(warning));
  for (std::string& warning : BackgroundWarnings(labels, classes)) report.warnings.push_back(std::move(warning));
  return report;
}

SourceKind VocSource() {
  return {.kind = "voc",
          .parts = "ROOT,SPLIT[,CLASSES]",
          .makes = "PASCAL VOC's layout: boxes, masks",
          .least = 2,
          .most = 3,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportVoc(parts[0], parts[1], parts[2], out, options);
          }};
}

}  // namespace moka
