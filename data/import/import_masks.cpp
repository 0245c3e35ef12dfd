// Importers of pictures whose masks are pictures of the same names: classes of pixels, or numbers of objects.
#include <charconv>
#include <memory>
#include <mutex>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/list_text.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/run_lengths.h"
#include "data/labels/sample_writing.h"
#include "data/records/class_names.h"
#include "data/records/sample_record.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct Pair {
  std::string picture;  // file names
  std::string mask;     // empty: there is none
};

std::string ReadList(const fs::path& list) {
  std::error_code ignored;
  if (fs::is_regular_file(list, ignored)) return ReadListText(list);
  const std::string folder = list.parent_path().string();
  return ListText(FileTree(folder.empty() ? "." : folder).Read(list.filename().string()), list.string());
}

constexpr const char* kMaskNamesHint =
    "pictures and masks belong together by their names without the extension: rename or remove one";

// The pairs of all pictures of a folder; masks without a picture are counted in `left_out`.
std::vector<Pair> PairsOfFolder(const FileTree& picture_tree, const FileTree& mask_tree, LeftOut& left_out) {
  const PicturesByStem pictures(picture_tree, "", &left_out);
  const PicturesByStem masks(mask_tree, "", &left_out);
  std::vector<Pair> pairs;
  for (const std::string& stem : pictures.stems()) {
    pairs.push_back({pictures.FileOf(stem, kMaskNamesHint), masks.FileOf(stem, kMaskNamesHint)});
  }
  if (pairs.empty()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(picture_tree.PathOf(""), ": no pictures"),
                Join(left_out.Sentences("it has"), "; "));
  }
  for (const std::string& stem : masks.stems()) {
    if (!pictures.Has(stem))
      left_out.Add("masks without a picture", mask_tree.PathOf(masks.FileOf(stem, kMaskNamesHint)));
  }
  return pairs;
}

// The file that a list's line names; empty: none. Lists of other programs name a folder before the file, or the
// extension that the picture had before it was converted.
std::string ListedMaskPicture(const PicturesByStem& pictures, const std::string& name) {
  if (pictures.HasFile(name)) return name;
  std::string found = pictures.FileOf(name, kMaskNamesHint);
  if (!found.empty() || !IsImageName(name)) return found;
  std::string file = fs::path(name).filename().string();
  return pictures.HasFile(file) ? file : pictures.FileOf(StemOf(name), kMaskNamesHint);
}

// The pairs that a list names, with the extension or without it. Pictures named again are told in `warnings`.
std::vector<Pair> PairsOfList(const FileTree& picture_tree, const FileTree& mask_tree, const fs::path& list,
                              std::vector<std::string>& warnings) {
  const PicturesByStem pictures(picture_tree, "");
  const PicturesByStem masks(mask_tree, "");
  std::vector<Pair> pairs;
  std::vector<int> lines;
  for (const ListTextLine& line : ListTextLines(ReadList(list))) {
    const std::string& name = line.text;
    std::string picture = ListedMaskPicture(pictures, name);
    if (picture.empty()) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = list.string(), .line = line.number},
                  StrCat(picture_tree.PathOf(""), " has no picture of the name \"", Printable(name), "\""),
                  DidYouMean(name, pictures.stems()));
    }
    std::string mask = masks.FileOf(StemOf(picture), kMaskNamesHint);
    pairs.push_back({std::move(picture), std::move(mask)});
    lines.push_back(line.number);
  }
  if (pairs.empty()) throw Error(ErrorKind::kBadData, StrCat(list.string(), ": the list is empty"));
  std::vector<NamedLine> names;
  for (size_t i = 0; i < pairs.size(); ++i) names.push_back({pairs[i].picture, lines[i]});
  if (std::string warning = RepeatedNames(list.string(), names); !warning.empty()) {
    warnings.push_back(std::move(warning));
  }
  return pairs;
}

// One box an object, in the order of their numbers.
void AddMaskObjects(const ValueMask& mask, SampleRecord& record, RecordWarnings& warnings) {
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
  CheckClassNames(classes.names, file);
  return classes;
}

// The file of a record's mask, its values classes. Those of a mask whose values are classes as they stand there are
// told in `values`. Errors: kBadData for a value without a class.
std::string ClassMaskFile(std::string file, const Image& picture, const MaskClasses& classes, MaskValues& values) {
  if (classes.of_value.empty()) {
    std::string made = MaskFile(std::move(file), picture, &values);
    if (!classes.names.empty()) CheckMaskClasses(values, static_cast<int>(classes.names.size()));
    return made;
  }
  const ValueMask mask = ReadValueMask(file, picture);
  Image gray;
  gray.Resize(mask.width, mask.height, 1);
  for (size_t i = 0; i < mask.values.size(); ++i) {
    const auto found = classes.of_value.find(mask.values[i]);
    if (found == classes.of_value.end()) {
      throw Error(ErrorKind::kBadData, StrCat("the mask has value ", mask.values[i], ", which is no class's"));
    }
    gray.pixels[i] = found->second;
  }
  return EncodePng(gray);
}

// The values that the masks of an import have, collected from the threads that make records.
class ValuesMet {
 public:
  void Add(const MaskValues& values) {
    const std::lock_guard lock(mutex_);
    met_ |= values;
  }
  // A sentence on masks of two values, of which layers would learn but one; empty for others.
  std::string Warning(const std::string& masks) const {
    constexpr size_t kIgnored = 255;
    const MaskValues learnt = MaskValues(met_).reset(0).reset(kIgnored);
    if (!met_.test(kIgnored) || learnt.any()) return {};
    return StrCat(masks, ": the masks have no values but 0 and 255, which stands for pixels without a class: where it ",
                  "is an object's, name both in CLASSES, in lines \"0 background\" and \"255 object\"");
  }

 private:
  std::mutex mutex_;
  MaskValues met_;
};

// The set that all records of an import are made from.
struct MaskSet {
  MaskKind kind = MaskKind::kClasses;
  const MaskClasses& classes;
  const FileTree& pictures;
  const FileTree& masks;
};

ImportItem MaskItemOf(const Pair& pair, const MaskSet& set, ValuesMet& values_met) {
  ImportItem item{.name = pair.picture, .file_bytes = set.pictures.BytesOf(pair.picture)};
  item.read = [&] { return set.pictures.Read(pair.picture); };
  item.describe_sample = [&](const Image& image, SampleRecord& record, RecordWarnings& warnings) {
    if (pair.mask.empty()) {
      throw Error(ErrorKind::kBadData, StrCat(set.masks.PathOf(""), " has no mask of its name"));
    }
    InFile(set.masks.PathOf(pair.mask), warnings, [&] {
      std::string file = set.masks.Read(pair.mask);
      if (set.kind == MaskKind::kClasses) {
        MaskValues values;
        record.set_mask(ClassMaskFile(std::move(file), image, set.classes, values));
        values_met.Add(values);
      } else {
        AddMaskObjects(ReadValueMask(file, image), record, warnings);
      }
    });
  };
  return item;
}

SampleSchema SchemaOf(MaskKind kind, const MaskClasses& classes) {
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
  LeftOut left_out;
  std::vector<std::string> told;
  const std::vector<Pair> pairs = files.list.empty() ? PairsOfFolder(picture_tree, mask_tree, left_out)
                                                     : PairsOfList(picture_tree, mask_tree, files.list, told);
  const MaskSet set{kind, classes, picture_tree, mask_tree};
  ValuesMet values_met;
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
    writer.Add(MaskItemOf(pairs[static_cast<size_t>(i)], set, values_met));
  }
  ImportReport report = writer.FinishSamples(SchemaOf(kind, classes));
  for (std::string& sentence : left_out.Sentences()) told.push_back(std::move(sentence));
  if (std::string warning = values_met.Warning(mask_tree.PathOf("")); !warning.empty()) {
    told.push_back(std::move(warning));
  }
  report.warnings.insert(report.warnings.end(), told.begin(), told.end());
  return report;
}

SourceKind InstancesSource() {
  return {.kind = "instances",
          .parts = "PICTURES,MASKS[,LIST]",
          .makes = "objects by number in PNGs: boxes with masks",
          .least = 2,
          .most = 3,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportMasks({parts[0], parts[1], parts[2], {}}, MaskKind::kInstances, out, options);
          }};
}

SourceKind MasksSource() {
  return {.kind = "masks",
          .parts = "PICTURES,MASKS[,LIST[,CLASSES]]",
          .makes = "pictures and PNGs of their pixels' classes",
          .least = 2,
          .most = 4,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            const MaskFiles files{parts[0], parts[1], parts[2], parts[3]};
            return ImportMasks(files, MaskKind::kClasses, out, options);
          }};
}

}  // namespace moka
