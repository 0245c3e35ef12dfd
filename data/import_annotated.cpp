// Importer of pictures with boxes: SSD's convert_annoset.
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/annotation_file.h"
#include "data/record_source.h"
#include "data/record_writer.h"

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
  for (const std::string& text : Split(ReadFile(list), '\n')) {
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

// Classes in the order of their labels, for labels.txt: those without a name are called by their number.
std::vector<std::string> NamesByLabel(const std::map<std::string, int32_t>& labels) {
  constexpr int32_t kMost = 1 << 16;
  std::vector<std::string> names;
  for (const auto& [name, label] : labels) {
    if (label < 0 || label >= kMost) return {};
    while (names.size() <= static_cast<size_t>(label)) names.push_back(std::to_string(names.size()));
    names[static_cast<size_t>(label)] = name;
  }
  return names;
}

}  // namespace

ImportReport ImportAnnotated(const fs::path& list, const std::string& root, const AnnotationOptions& annotations,
                             const fs::path& out, const ImportOptions& options) {
  const std::vector<AnnotatedFile> files = ReadPairs(list);
  const bool needs_names = annotations.format != "txt" || !annotations.label_map.empty();
  std::map<std::string, int32_t> labels;
  if (needs_names) {
    if (annotations.label_map.empty()) throw Error(ErrorKind::kUsage, "no label map: annotations name their classes");
    labels = ReadLabelMap(annotations.label_map,
                          annotations.check_label ? LabelMapCheck::kUniqueNames : LabelMapCheck::kNone);
  }
  RecordWriter writer(out, options, static_cast<int64_t>(files.size()));
  for (const int64_t i : ImportOrder(static_cast<int64_t>(files.size()), options)) {
    const AnnotatedFile& file = files[static_cast<size_t>(i)];
    const AnnotationFormat format = FormatOf(annotations, file, list);
    // As Caffe: without its file a picture has no objects. The root is put before the names as text.
    const fs::path path = root + file.annotation;
    std::error_code ignored;
    const bool has_objects = fs::exists(path, ignored);
    std::string bytes;
    std::string objects;
    try {
      bytes = ReadFile(root + file.picture);
      if (has_objects) objects = ReadFile(path);
    } catch (const Error& e) {
      writer.AddBad(file.picture, e);
      continue;
    }
    if (!has_objects) writer.Warn(StrCat(file.annotation, " does not exist: ", file.picture, " has no objects"));
    constexpr int32_t kNoLabel = -1;  // of the whole picture
    const auto describe = [&](const Image& image, AnnotatedDatum& record) {
      record.set_type(AnnotatedDatum::BBOX);
      if (!has_objects) return;
      std::vector<std::string> warnings;
      try {
        ReadAnnotations(objects, format, labels, {image.width, image.height}, record, warnings);
      } catch (const Error& e) {
        throw Error(e.kind(), {}, StrCat(path.string(), ": ", e.text()), e.hint());
      }
      for (const std::string& warning : warnings) writer.Warn(StrCat(path.string(), ": ", warning));
    };
    try {
      writer.AddAnnotated(bytes, kNoLabel, file.picture, describe);
    } catch (const Error& e) {
      if (annotations.stops_at_bad_file || e.kind() != ErrorKind::kBadData) throw;
      writer.AddBad(file.picture, e);
    }
  }
  return writer.Finish(NamesByLabel(labels));
}

ImportReport ImportAnnotatedClasses(const fs::path& list, const std::string& root, const fs::path& out,
                                    const ImportOptions& options) {
  const std::vector<ListedImage> images = ReadImageList(list);
  RecordWriter writer(out, options, static_cast<int64_t>(images.size()));
  for (const int64_t i : ImportOrder(static_cast<int64_t>(images.size()), options)) {
    const ListedImage& image = images[static_cast<size_t>(i)];
    std::string bytes;
    try {
      bytes = ReadFile(root + image.path);
    } catch (const Error& e) {
      writer.AddBad(image.path, e);
      continue;
    }
    writer.AddAnnotated(bytes, image.label, image.path, [](const Image&, AnnotatedDatum&) {});
  }
  return writer.Finish({});
}

}  // namespace moka
