// Importer of YOLO's layout: beside the pictures a text file for each, of lines "class x y width height" in parts of
// the picture's sides, as darknet and the programs after it write them. J. Redmon et al., You Only Look Once, CVPR
// 2016.
#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/left_out.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/annotation_file.h"
#include "data/labels/sample_writing.h"
#include "data/labels/yaml_names.h"
#include "data/records/class_names.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct YoloPicture {
  std::string picture;  // file names
  std::string boxes;    // empty: it has none
};

// Whether two paths, which may lead into archives, name one folder.
bool IsOneFolder(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  const bool is_same = fs::equivalent(a, b, failed);
  return failed ? (a / "").lexically_normal() == (b / "").lexically_normal() : is_same;
}

// Files of boxes without a picture, and what is neither of the two nor `names`, the file of the classes, are counted in
// `left_out`, pictures without a file of boxes in `boxless`.
std::vector<YoloPicture> YoloPicturesOf(const FileTree& picture_tree, const FileTree& label_tree, const fs::path& names,
                                        LeftOut& left_out, LeftOut& boxless) {
  const bool is_one_folder = IsOneFolder(picture_tree.PathOf(""), label_tree.PathOf(""));
  const PicturesByStem pictures(picture_tree, "", is_one_folder ? nullptr : &left_out);
  std::map<std::string, std::string> files;
  for (const std::string& file : label_tree.FilesIn("", &left_out)) {
    if (!file.ends_with(".txt")) {
      const bool is_missed = !IsSystemFile(file) && file != names.filename().string();
      if (is_missed && !(is_one_folder && IsImageName(file))) {
        left_out.Add(
            is_one_folder ? KindOfNoPicture(file) : "files that are no boxes by their names, which end in .txt", file);
      }
      continue;
    }
    const std::string stem = StemOf(file);
    // Programs for labelling keep the classes' names there.
    if (!pictures.Has(stem) && stem != "classes") left_out.Add("files of boxes without a picture", file);
    files.emplace(stem, file);
  }
  std::vector<YoloPicture> found;
  for (const std::string& stem : pictures.stems()) {
    const auto file = files.find(stem);
    found.push_back(
        {pictures.FileOf(stem, "files of boxes go by the names without the extension: rename or remove one"),
         file == files.end() ? std::string() : file->second});
    if (file == files.end()) boxless.Add("pictures without a file of boxes", found.back().picture);
  }
  if (found.empty()) throw Error(ErrorKind::kBadData, StrCat(picture_tree.PathOf(""), ": no pictures"));
  return found;
}

std::map<std::string, int32_t> YoloLabelsOf(const std::vector<std::string>& names, const fs::path& file) {
  if (names.empty()) throw Error(ErrorKind::kBadData, StrCat(file.string(), ": no names of classes"));
  CheckClassNames(names, file);
  std::map<std::string, int32_t> labels;
  for (const std::string& name : names) labels.emplace(name, static_cast<int32_t>(labels.size()) + 1);
  return labels;
}

}  // namespace

ImportReport ImportYolo(const fs::path& pictures, const fs::path& boxes, const fs::path& classes, const fs::path& out,
                        const ImportOptions& options) {
  const auto step = [&] { CheckImportStop(options); };
  const std::vector<std::string> names = IsYamlName(classes) ? NamesInYaml(classes) : ReadNameLines(classes);
  const std::map<std::string, int32_t> labels = YoloLabelsOf(names, classes);
  const FileTree picture_tree(pictures, step);
  const FileTree label_tree(boxes, step);
  LeftOut left_out;
  LeftOut boxless;
  const std::vector<YoloPicture> found = YoloPicturesOf(picture_tree, label_tree, classes, left_out, boxless);
  uint32_t crc = Crc32c(Join(names, "\n"));
  int64_t bytes = 0;
  for (const YoloPicture& picture : found) {
    bytes += picture_tree.BytesOf(picture.picture);
    crc = Crc32c(StrCat(picture.picture, "\t", picture.boxes, "\t", label_tree.BytesOf(picture.boxes), "\n"), crc);
  }
  const auto count = static_cast<int64_t>(found.size());
  RecordWriter writer(out, options,
                      {.text = StrCat("yolo ", pictures.string(), " ", boxes.string()),
                       .items = count,
                       .crc32c = crc,
                       .bytes = bytes,
                       .kind = RecordKind::kSample});
  for (const int64_t i : ImportOrder(count, options)) {
    const YoloPicture& picture = found[static_cast<size_t>(i)];
    ImportItem item{.name = picture.picture, .file_bytes = picture_tree.BytesOf(picture.picture)};
    item.read = [&] { return picture_tree.Read(picture.picture); };
    item.describe_sample = [&](const Image& image, SampleRecord& record, RecordWarnings& warnings) {
      if (picture.boxes.empty()) return;
      InFile(label_tree.PathOf(picture.boxes), warnings, [&] {
        AddBoxes(ReadObjects(label_tree.Read(picture.boxes), AnnotationFormat::kYolo, labels,
                             {image.width, image.height}, warnings),
                 record, warnings);
      });
    };
    writer.Add(std::move(item));
  }
  SampleSchema schema = NewSchema();
  schema.set_boxes(true);
  schema.add_box_class("none");
  for (const std::string& name : names) schema.add_box_class(name);
  ImportReport report = writer.FinishSamples(schema);
  for (std::string& sentence : boxless.Sentences("without boxes")) report.warnings.push_back(std::move(sentence));
  for (std::string& sentence : left_out.Sentences()) report.warnings.push_back(std::move(sentence));
  return report;
}

SourceKind YoloSource() {
  return {.kind = "yolo",
          .parts = "PICTURES,LABELS,CLASSES",
          .makes = "YOLO's text files: boxes",
          .least = 3,
          .most = 3,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportYolo(parts[0], parts[1], parts[2], out, options);
          }};
}

}  // namespace moka
