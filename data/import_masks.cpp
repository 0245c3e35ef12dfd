// Importers of pictures whose masks are pictures of the same names: classes of pixels, or numbers of objects.
#include <charconv>
#include <memory>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/class_names.h"
#include "data/file_tree.h"
#include "data/list_text.h"
#include "data/record_writer.h"
#include "data/run_lengths.h"
#include "data/sample_writing.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct Pair {
  std::string picture;  // file names
  std::string mask;     // empty: there is none
};

// The files of a folder that are pictures by their names, by their stems. Of several of one stem the first counts.
std::map<std::string, std::string> PicturesByStem(const FileTree& tree) {
  std::map<std::string, std::string> pictures;
  for (const std::string& file : tree.FilesIn("")) {
    if (IsImageName(file)) pictures.emplace(StemOf(file), file);
  }
  return pictures;
}

std::string ReadList(const fs::path& list) {
  std::error_code ignored;
  if (fs::is_regular_file(list, ignored)) return ReadListText(list);
  const std::string folder = list.parent_path().string();
  return ListText(FileTree(folder.empty() ? "." : folder).Read(list.filename().string()), list.string());
}

// The names of a list, or of all pictures, with their files.
std::vector<Pair> ImportMasksPairsOf(const FileTree& pictures, const FileTree& masks, const fs::path& list) {
  const std::map<std::string, std::string> picture_files = PicturesByStem(pictures);
  const std::map<std::string, std::string> mask_files = PicturesByStem(masks);
  const auto mask_of = [&](const std::string& stem) {
    const auto found = mask_files.find(stem);
    return found == mask_files.end() ? std::string() : found->second;
  };
  std::vector<Pair> pairs;
  if (list.empty()) {
    for (const auto& [stem, file] : picture_files) pairs.push_back({file, mask_of(stem)});
    if (pairs.empty()) throw Error(ErrorKind::kBadData, StrCat(pictures.PathOf(""), ": no pictures"));
    return pairs;
  }
  int line_number = 0;
  for (const std::string& text : Split(ReadList(list), '\n')) {
    ++line_number;
    const std::string name(Trim(text));
    if (name.empty()) continue;
    auto found = picture_files.find(name);
    if (found == picture_files.end() && IsImageName(name)) found = picture_files.find(StemOf(name));
    if (found == picture_files.end()) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = list.string(), .line = line_number},
                  StrCat(pictures.PathOf(""), " has no picture of the name \"", Printable(name), "\""));
    }
    pairs.push_back({found->second, mask_of(found->first)});
  }
  if (pairs.empty()) throw Error(ErrorKind::kBadData, StrCat(list.string(), ": the list is empty"));
  return pairs;
}

// One box an object, in the order of their numbers.
void AddMaskObjects(const ValueMask& mask, SampleRecord& record, std::vector<std::string>& warnings) {
  for (const auto& [number, runs] : RunLengthsByValue(mask.values, mask.width, mask.height)) {
    const ImageWindow window = WindowOf(runs, mask.width, mask.height);
    const PixelBox box = {static_cast<double>(window.x), static_cast<double>(window.y),
                          static_cast<double>(window.x + window.width), static_cast<double>(window.y + window.height)};
    SampleBox* const made = AddBox({mask.width, mask.height}, box, 1, StrCat("object ", number), record, warnings);
    if (made != nullptr) made->mutable_run()->Assign(runs.begin(), runs.end());
  }
}

// Names of classes, and what the values of masks become.
struct MaskClasses {
  std::vector<std::string> names;
  std::map<uint16_t, uint8_t> of_value;  // empty: values are classes
};

MaskClasses ReadMaskClasses(const fs::path& file) {
  MaskClasses classes;
  if (file.empty()) return classes;
  const auto fail = [&](size_t line, const std::string& text) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file.string(), .line = static_cast<int>(line) + 1}, text);
  };
  const std::vector<std::string> lines = ReadNameLines(file);
  constexpr size_t kMostClasses = 256;
  if (lines.empty() || lines.size() > kMostClasses) {
    fail(0, StrCat("names ", lines.size(), " classes, expected 1 to ", kMostClasses));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string line(Trim(lines[i]));
    uint16_t value = 0;
    const auto read = std::from_chars(line.data(), line.data() + line.size(), value);
    const bool has_value = read.ec == std::errc() && read.ptr != line.data() + line.size() && *read.ptr == ' ';
    if (i > 0 && has_value == classes.of_value.empty()) {
      fail(i, "either all lines begin with the class's value in the masks or none does");
    }
    if (has_value && !classes.of_value.emplace(value, static_cast<uint8_t>(i)).second) {
      fail(i, StrCat("value ", value, " is another class's already"));
    }
    classes.names.emplace_back(has_value ? Trim(line.substr(static_cast<size_t>(read.ptr - line.data()))) : line);
  }
  return classes;
}

// The file of a record's mask, its values classes. Errors: kBadData for a value without a class.
std::string ClassMaskFile(std::string file, const Image& picture, const MaskClasses& classes) {
  if (classes.of_value.empty()) return MaskFile(std::move(file), picture);
  const ValueMask mask = ReadValueMask(file, picture);
  Image grey;
  grey.Resize(mask.width, mask.height, 1);
  for (size_t i = 0; i < mask.values.size(); ++i) {
    const auto found = classes.of_value.find(mask.values[i]);
    if (found == classes.of_value.end()) {
      throw Error(ErrorKind::kBadData, StrCat("the mask has value ", mask.values[i], ", which is no class's"));
    }
    grey.pixels[i] = found->second;
  }
  return EncodePng(grey);
}

SampleSchema ImportMasksSchemaOf(MaskKind kind, const MaskClasses& classes) {
  SampleSchema schema = NewSchema();
  if (kind == MaskKind::kClasses) {
    schema.set_mask(true);
    for (const std::string& name : classes.names) schema.add_mask_class(name);
    return schema;
  }
  schema.add_box_class("none");
  schema.add_box_class("object");
  schema.set_boxes(true);
  schema.set_box_masks(true);
  return schema;
}

}  // namespace

ImportReport ImportMasks(const MaskFiles& files, MaskKind kind, const fs::path& out, const ImportOptions& options) {
  const auto step = [&] { CheckImportStop(options); };
  const MaskClasses classes = ReadMaskClasses(files.classes);
  const FileTree picture_tree(files.pictures, step);
  const FileTree mask_tree(files.masks, step);
  const std::vector<Pair> pairs = ImportMasksPairsOf(picture_tree, mask_tree, files.list);
  uint32_t crc = 0;
  int64_t bytes = 0;
  for (const Pair& pair : pairs) {
    const int64_t mask_bytes = mask_tree.BytesOf(pair.mask);
    bytes += picture_tree.BytesOf(pair.picture) + mask_bytes;
    crc = Crc32c(StrCat(pair.picture, "\t", pair.mask, "\t", mask_bytes, "\n"), crc);
  }
  for (const auto& [value, label] : classes.of_value) crc = Crc32c(StrCat(value, "\t", int{label}, "\n"), crc);
  const char* const name = kind == MaskKind::kClasses ? "masks " : "instances ";
  RecordWriter writer(
      out, options,
      {.text = StrCat(name, files.pictures.string(), " ", files.masks.string(), " ", files.list.string()),
       .items = static_cast<int64_t>(pairs.size()),
       .crc32c = crc,
       .bytes = bytes,
       .kind = RecordKind::kSample});
  for (const int64_t i : ImportOrder(static_cast<int64_t>(pairs.size()), options)) {
    const Pair& pair = pairs[static_cast<size_t>(i)];
    ImportItem item{.name = pair.picture};
    item.read = [&pair, &picture_tree] { return picture_tree.Read(pair.picture); };
    item.describe_sample = [&, kind](const Image& image, SampleRecord& record, std::vector<std::string>& warnings) {
      if (pair.mask.empty()) {
        throw Error(ErrorKind::kBadData, StrCat(mask_tree.PathOf(""), " has no mask of its name"));
      }
      InFile(mask_tree.PathOf(pair.mask), warnings, [&] {
        std::string file = mask_tree.Read(pair.mask);
        if (kind == MaskKind::kClasses) {
          record.set_mask(ClassMaskFile(std::move(file), image, classes));
        } else {
          AddMaskObjects(ReadValueMask(file, image), record, warnings);
        }
      });
    };
    writer.Add(std::move(item));
  }
  return writer.FinishSamples(ImportMasksSchemaOf(kind, classes));
}

}  // namespace moka
