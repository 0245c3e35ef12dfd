// Importer of PASCAL VOC's layout. M. Everingham et al., The PASCAL Visual Object Classes (VOC) Challenge, IJCV 2010.
#include <optional>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/annotation_file.h"
#include "data/file_tree.h"
#include "data/list_text.h"
#include "data/record_writer.h"
#include "data/sample_writing.h"

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

std::string PictureFile(const FileTree& tree, const std::string& name) {
  for (const char* extension : {".jpg", ".png", ".jpeg", ".JPG", ".JPEG", ".PNG", ".bmp", ".tif", ".tiff", ".webp"}) {
    std::string file = StrCat("JPEGImages/", name, extension);
    if (tree.Has(file)) return file;
  }
  return StrCat("JPEGImages/", name, ".jpg");  // its reading will say that it is missing
}

// Lines "NAME", or "NAME FLAG" in the lists of one class, where -1 says that the picture shows none.
std::vector<VocPicture> ReadSplit(const FileTree& tree, const VocSplit& split) {
  std::vector<VocPicture> pictures;
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
    if (flag == "-1") continue;
    const std::string name(line.substr(0, blank));
    VocPicture picture{name, PictureFile(tree, name), StrCat("Annotations/", name, ".xml"), {}};
    if (split.has_masks) picture.mask = StrCat("SegmentationClass/", name, ".png");
    pictures.push_back(std::move(picture));
  }
  if (pictures.empty()) throw Error(ErrorKind::kBadData, StrCat(tree.PathOf(split.file), ": the list is empty"));
  return pictures;
}

// A list of names from class 1 on, unless the first stands for class 0.
std::map<std::string, int32_t> ReadNames(const fs::path& path) {
  std::map<std::string, int32_t> labels;
  const std::set<std::string, std::less<>> background = {"none", "background", "__background__", "none_of_the_above"};
  int32_t next = 1;
  int line_number = 0;
  for (const std::string& text : Split(ReadListText(path), '\n')) {
    ++line_number;
    const std::string name(Trim(text));
    if (name.empty()) continue;
    const bool is_background = labels.empty() && background.contains(name);
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
  return path.extension() == ".prototxt" ? ReadLabelMap(path, LabelMapCheck::kUniqueNames) : ReadNames(path);
}

// What a first look at all annotations finds.
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

void AddBoxes(const FileTree& tree, const VocPicture& picture, const std::map<std::string, int32_t>& labels,
              const Image& image, SampleRecord& record, std::vector<std::string>& warnings) {
  const AnnotatedObjects found =
      ReadObjects(tree.Read(picture.annotation), AnnotationFormat::kXml, labels, {image.width, image.height}, warnings);
  for (const AnnotatedObject& object : found.objects) {
    const std::string name = StrCat("the box ", object.box.ToText());
    SampleBox* const box = AddBox(found.size, object.box, object.label, name, record, warnings);
    if (box != nullptr && object.is_difficult) box->set_difficult(true);
  }
}

ImportItem ImportVocItemOf(const FileTree& tree, const VocPicture& picture,
                           const std::map<std::string, int32_t>& labels) {
  ImportItem item{.name = picture.name};
  item.read = [&] { return tree.Read(picture.picture); };
  item.describe_sample = [&](const Image& image, SampleRecord& record, std::vector<std::string>& warnings) {
    for (const std::string& file : {picture.annotation, picture.mask}) {
      if (file.empty() || tree.Has(file)) continue;
      throw Error(ErrorKind::kBadData, StrCat(tree.PathOf(file), " does not exist"));
    }
    InFile(tree.PathOf(picture.annotation), warnings,
           [&] { AddBoxes(tree, picture, labels, image, record, warnings); });
    if (picture.mask.empty()) return;
    InFile(tree.PathOf(picture.mask), warnings, [&] { record.set_mask(MaskFile(tree.Read(picture.mask), image)); });
  };
  return item;
}

}  // namespace

ImportReport ImportVoc(const fs::path& folder, const std::string& split, const fs::path& classes, const fs::path& out,
                       const ImportOptions& options) {
  const FileTree tree(folder, [&] { CheckImportStop(options); });
  const VocSplit found = FindSplit(tree, split);
  const std::vector<VocPicture> pictures = ReadSplit(tree, found);
  const Looked looked = LookThroughVoc(tree, pictures, options);
  std::map<std::string, int32_t> labels;
  if (classes.empty()) {
    for (const std::string& name : looked.classes) labels.emplace(name, static_cast<int32_t>(labels.size()) + 1);
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
  for (const int64_t i : ImportOrder(count, options)) {
    writer.Add(ImportVocItemOf(tree, pictures[static_cast<size_t>(i)], labels));
  }
  SampleSchema schema = NewSchema();
  schema.set_boxes(true);
  for (const std::string& name : NamesByLabel(labels)) schema.add_box_class(name);
  if (schema.box_class_size() > 0 && schema.box_class(0) == "0") schema.set_box_class(0, "none");
  if (found.has_masks) {
    schema.set_mask(true);
    // The masks' values are VOC's own numbers, which those of the names found need not be.
    if (!classes.empty()) *schema.mutable_mask_class() = schema.box_class();
  }
  return writer.FinishSamples(schema);
}

}  // namespace moka
