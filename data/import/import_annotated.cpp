// Importer of pictures with boxes: SSD's convert_annoset.
#include <map>
#include <memory>
#include <optional>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/list_text.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/annotation_file.h"
#include "data/labels/label_map.h"
#include "data/records/record_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct AnnotatedFile {
  std::string picture;
  std::string annotation;
  int line = 0;
};

// Lines "picture annotation"; blanks separate the two, so names have none.
std::vector<AnnotatedFile> ReadPairs(const fs::path& list) {
  std::vector<AnnotatedFile> files;
  int line_number = 0;
  for (const std::string& text : Split(ReadListText(list), '\n')) {
    ++line_number;
    const std::string_view line = Trim(text);
    if (line.empty()) continue;
    const size_t first = line.find_first_of(" \t");
    const size_t last = line.find_last_of(" \t");
    if (first == std::string_view::npos || !Trim(line.substr(first, last - first)).empty()) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = list.string(), .line = line_number},
                  StrCat("expected \"picture annotation\", found \"", Printable(line), "\""));
    }
    files.push_back({std::string(line.substr(0, first)), std::string(line.substr(last + 1)), line_number});
  }
  if (files.empty()) throw Error(ErrorKind::kBadData, StrCat(list.string(), ": the list is empty"));
  return files;
}

AnnotationFormat FormatOf(const AnnotationOptions& options, const AnnotatedFile& file, const fs::path& list) {
  if (!options.format.empty()) return AnnotationFormatNamed(options.format);
  const std::string extension = fs::path(file.annotation).extension().string();
  try {
    return AnnotationFormatNamed(extension.empty() ? "" : std::string_view(extension).substr(1));
  } catch (const Error&) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = list.string(), .line = file.line},
                StrCat("annotation files are .xml, .json or .txt, found \"", Printable(file.annotation), "\""));
  }
}

// As Caffe: without its file a picture has no objects. The root is put before the names as text.
ImportItem ItemOf(const AnnotatedFile& file, AnnotationFormat format, const std::map<std::string, int32_t>& labels,
                  const std::string& root, bool may_be_misdescribed, bool is_viewed) {
  constexpr int32_t kNoLabel = -1;  // of the whole picture
  ImportItem item;
  item.name = file.picture;
  item.label = kNoLabel;
  item.may_be_misdescribed = may_be_misdescribed;
  // Those who look keep to a budget of memory; for others the reading of the file says how long it is.
  if (is_viewed) item.file_bytes = BytesOfFile(root + file.picture);
  const auto objects = std::make_shared<std::optional<std::string>>();
  item.read = [=, picture = root + file.picture, path = root + file.annotation] {
    std::error_code ignored;
    std::string bytes = ReadFile(picture);
    if (fs::exists(path, ignored)) *objects = ReadFile(path, kAnnotationLimitBytes);
    return bytes;
  };
  item.describe = [=, &labels, path = root + file.annotation](const Image& image, AnnotatedDatum& record,
                                                              RecordWarnings& warnings) {
    record.set_type(AnnotatedDatum::BBOX);
    if (!*objects) {
      warnings.push_back({StrCat(file.annotation, " does not exist: ", file.picture, " has no objects")});
      return;
    }
    InFile(path, warnings, [&] {
      ReadAnnotations(**objects, format, labels, {image.width, image.height}, record, warnings);
    });
  };
  return item;
}

}  // namespace

ImportReport ImportAnnotated(const fs::path& list, const std::string& root, const AnnotationOptions& annotations,
                             const fs::path& out, const ImportOptions& options) {
  const std::vector<AnnotatedFile> files = ReadPairs(list);
  std::vector<NamedLine> names;
  for (const AnnotatedFile& file : files) names.push_back({file.picture, file.line});
  const std::string repeated =
      RepeatedNames(list.string(), names, "annotation file", [&](size_t i) { return files[i].annotation; });
  const bool needs_names = annotations.format != "txt" || !annotations.label_map.empty();
  std::map<std::string, int32_t> labels;
  if (needs_names) {
    if (annotations.label_map.empty()) throw Error(ErrorKind::kUsage, "no label map: annotations name their classes");
    labels =
        ReadLabelMap(annotations.label_map, annotations.check_label ? LabelMapCheck::kNames : LabelMapCheck::kNone);
  }
  uint32_t crc = 0;
  for (const AnnotatedFile& file : files) crc = Crc32c(StrCat(file.picture, "\t", file.annotation, "\n"), crc);
  for (const auto& [name, label] : labels) crc = Crc32c(StrCat(name, "\t", label, "\n"), crc);
  RecordWriter writer(out, options,
                      {.text = StrCat("boxes ", list.string(), " ", root),
                       .items = static_cast<int64_t>(files.size()),
                       .crc32c = crc,
                       .kind = RecordKind::kAnnotated});
  for (const int64_t i : ImportOrder(static_cast<int64_t>(files.size()), options)) {
    const AnnotatedFile& file = files[static_cast<size_t>(i)];
    writer.Add(ItemOf(file, FormatOf(annotations, file, list), labels, root, !annotations.stops_at_bad_file,
                      options.visitor != nullptr));
  }
  ImportReport report = writer.Finish(NamesByLabel(labels));
  if (!repeated.empty()) report.warnings.push_back(repeated);
  for (std::string& warning : BackgroundWarnings(labels, annotations.label_map)) {
    report.warnings.push_back(std::move(warning));
  }
  return report;
}

ImportReport ImportAnnotatedClasses(const fs::path& list, const std::string& root, const fs::path& out,
                                    const ImportOptions& options) {
  const std::vector<ListedImage> images = ReadImageList(list);
  RecordWriter writer(out, options,
                      {.text = StrCat("annotated list ", list.string(), " ", root),
                       .items = static_cast<int64_t>(images.size()),
                       .crc32c = ChecksumOf(images),
                       .kind = RecordKind::kAnnotated});
  for (const int64_t i : ImportOrder(static_cast<int64_t>(images.size()), options)) {
    const ListedImage& image = images[static_cast<size_t>(i)];
    ImportItem item{.name = image.path, .label = image.label};
    item.read = [path = root + image.path] { return ReadFile(path); };
    item.describe = [](const Image&, AnnotatedDatum&, RecordWarnings&) {};
    writer.Add(std::move(item));
  }
  return writer.Finish({});
}

namespace {

ImportReport FromBoxes(const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
  AnnotationOptions annotations;
  annotations.label_map = parts[1];
  annotations.check_label = true;
  annotations.stops_at_bad_file = options.on_bad_record == ImportOptions::OnBadRecord::kStop;
  const std::string root = parts[2].empty() ? std::string() : StrCat(parts[2], "/");
  return ImportAnnotated(parts[0], root, annotations, out, options);
}

}  // namespace

SourceKind BoxesSource() {
  return {.kind = "boxes",
          .parts = "LIST,LABELMAP[,ROOT]",
          .makes = "lines \"picture annotation\": AnnotatedDatums",
          .least = 2,
          .most = 3,
          .import = FromBoxes};
}

}  // namespace moka
