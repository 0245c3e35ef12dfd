// Importer of ILSVRC-2012 from the files that are published: ILSVRC2012_img_train.tar, whose members are a tar archive
// a class, ILSVRC2012_img_val.tar, whose members are pictures, and what names classes (data/labels/imagenet_classes.h).
// A first pass reads the archives' headers alone; pictures are then read at their places in any order, so that a
// shuffled import holds no pictures in memory and needs no unpacked copy.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/left_out.h"
#include "data/files/packed_file.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/imagenet_classes.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainTar = "ILSVRC2012_img_train.tar";
constexpr const char* kValTar = "ILSVRC2012_img_val.tar";
constexpr int64_t kTrainPictures = 1'281'167;
constexpr int64_t kValPictures = 50'000;
constexpr const char* kNoClasses =
    "put ILSVRC2012_devkit_t12.tar.gz beside it, or Caffe's synset_words.txt and val.txt";

struct TarPicture {
  int64_t offset = 0;  // in the archive
  int64_t bytes = 0;
  int64_t name = 0;  // where it begins among all names
  int32_t label = 0;
};

// The pictures of an archive in its order. A million names are one text: 30 bytes each and not 80.
class PictureIndex {
 public:
  void Add(std::string_view name, int64_t offset, int64_t bytes, int32_t label) {
    pictures_.push_back({offset, bytes, std::ssize(names_), label});
    names_.append(name).push_back('\n');
    crc32c_ = Crc32c(StrCat(name, "\t", bytes, "\t", label, "\n"), crc32c_);
    bytes_ += bytes;
  }
  std::string NameOf(const TarPicture& picture) const {
    const auto begin = static_cast<size_t>(picture.name);
    return names_.substr(begin, names_.find('\n', begin) - begin);
  }
  const std::vector<TarPicture>& pictures() const { return pictures_; }
  std::vector<TarPicture>& pictures() { return pictures_; }
  uint32_t crc32c() const { return crc32c_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<TarPicture> pictures_;
  std::string names_;
  uint32_t crc32c_ = 0;
  int64_t bytes_ = 0;
};

// The archive of a part of the set. Errors: kNoInput where it is not there, kBadData where it is packed once more.
fs::path TarOf(const fs::path& folder, const char* name) {
  fs::path tar = folder / name;
  std::error_code code;
  if (!fs::exists(tar, code)) {
    throw Error(ErrorKind::kNoInput, {}, StrCat("there is no ", Printable(tar.string())),
                "the archives keep their published names; of unpacked class folders import the folder");
  }
  ArchiveReader reader(tar);
  if (reader.Next() && !reader.is_plain()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(tar.string()), " is compressed"),
                "unpack it: pictures are read at their places in it");
  }
  return tar;
}

FileRange WholeOf(const fs::path& file) { return {0, OpenFile::ForReading(file).bytes()}; }

// The pictures of a part, and the sentences about it.
struct ImagenetPart {
  fs::path tar;
  PictureIndex index = {};
  std::vector<std::string> labels = {};
  std::vector<std::string> warnings = {};
};

// Adds a class's pictures.
void AddClass(const fs::path& tar, const FileRange& range, std::string_view synset, int32_t label,
              const ImportOptions& options, LeftOut& left_out, ImagenetPart& part) {
  ArchiveReader reader(tar, range);
  const auto before = part.index.pictures().size();
  while (reader.Next()) {
    CheckImportStop(options);
    if (!IsImageName(reader.name())) {
      left_out.Add(KindOfNoPicture(reader.name()), StrCat(synset, "/", reader.name()));
      continue;
    }
    part.index.Add(StrCat(synset, "/", fs::path(reader.name()).filename().string()), reader.offset(), reader.bytes(),
                   label);
  }
  for (std::string& warning : reader.Warnings()) part.warnings.push_back(StrCat(synset, ".tar in ", warning));
  if (part.index.pictures().size() == before) part.warnings.push_back(StrCat(synset, ".tar has no pictures"));
}

// The archives of classes in the training's archive, by synset. Errors: kBadData where it has none.
std::map<std::string, FileRange> ClassArchives(const fs::path& tar, const ImportOptions& options, LeftOut& left_out,
                                               std::vector<std::string>& warnings) {
  std::map<std::string, FileRange> archives;
  ArchiveReader reader(tar, WholeOf(tar));
  while (reader.Next()) {
    CheckImportStop(options);
    const fs::path name = fs::path(reader.name()).filename();
    if (name.extension() != ".tar" || !IsSynset(name.stem().string())) {
      if (!IsSystemFile(reader.name())) left_out.Add("members that are no archive of a class", reader.name());
      continue;
    }
    archives.insert_or_assign(name.stem().string(), FileRange{reader.offset(), reader.bytes()});
  }
  for (std::string& warning : reader.Warnings("the last counts")) warnings.push_back(std::move(warning));
  if (!archives.empty()) return archives;
  throw Error(ErrorKind::kBadData, {}, StrCat(Printable(tar.string()), " has no members as n01440764.tar"),
              "the published archive has a thousand, each with the pictures of a class");
}

ImagenetPart FindTraining(const fs::path& folder, const ImagenetClasses& known, const ImportOptions& options) {
  ImagenetPart part{.tar = TarOf(folder, kTrainTar)};
  LeftOut left_out;
  const std::map<std::string, FileRange> archives = ClassArchives(part.tar, options, left_out, part.warnings);
  ImagenetClasses classes = known;
  if (classes.synsets.empty()) {
    for (const auto& [synset, range] : archives) classes.synsets.push_back(synset);
  }
  part.labels = classes.Names();
  for (const auto& [synset, range] : archives) {
    const auto found = std::ranges::lower_bound(classes.synsets, synset);
    if (found == classes.synsets.end() || *found != synset) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat(Printable(part.tar.string()), ": ", synset, ".tar is of no class that ", known.from, " has"),
                  DidYouMean(synset, classes.synsets));
    }
    AddClass(part.tar, range, synset, static_cast<int32_t>(found - classes.synsets.begin()), options, left_out, part);
  }
  // Pictures lie in the archive by its classes' places, which need not be alphabetical.
  std::ranges::sort(part.index.pictures(), {}, &TarPicture::offset);
  for (std::string& sentence : left_out.Sentences()) part.warnings.push_back(std::move(sentence));
  return part;
}

ImagenetPart FindValidation(const fs::path& folder, const ImagenetClasses& classes, const ImportOptions& options) {
  ImagenetPart part{.tar = TarOf(folder, kValTar), .labels = classes.Names()};
  if (classes.validation.empty()) {
    throw Error(ErrorKind::kNoInput, {},
                StrCat(Printable(part.tar.string()), ": nothing in ", Printable(folder.string()),
                       " says which classes its pictures are of"),
                kNoClasses);
  }
  LeftOut left_out;
  std::set<int64_t> met;
  ArchiveReader reader(part.tar, WholeOf(part.tar));
  while (reader.Next()) {
    CheckImportStop(options);
    const std::string name = fs::path(reader.name()).filename().string();
    const int64_t number = ValidationNumber(name);
    if (number == 0) {
      if (!IsSystemFile(reader.name())) left_out.Add("members that are no ILSVRC2012_val_00000001.JPEG", reader.name());
      continue;
    }
    if (number > std::ssize(classes.validation)) {
      throw Error(ErrorKind::kBadData, StrCat(Printable(part.tar.string()), ": ", Printable(name), " has no class: ",
                                              classes.from, " has those of ", classes.validation.size()));
    }
    if (!met.insert(number).second)
      throw Error(ErrorKind::kBadData, StrCat(Printable(part.tar.string()), ": picture ", number, " is there twice"));
    part.index.Add(name, reader.offset(), reader.bytes(), classes.validation[static_cast<size_t>(number - 1)]);
  }
  for (std::string& warning : reader.Warnings()) part.warnings.push_back(std::move(warning));
  for (std::string& sentence : left_out.Sentences()) part.warnings.push_back(std::move(sentence));
  if (part.index.pictures().empty()) {
    throw Error(ErrorKind::kBadData, StrCat(Printable(part.tar.string()), " has no ILSVRC2012_val_00000001.JPEG"));
  }
  if (std::ssize(met) < std::ssize(classes.validation)) {
    part.warnings.push_back(StrCat(part.tar.string(), " has ", met.size(), " of the ", classes.validation.size(),
                                   " pictures that ", classes.from, " has classes of"));
  }
  return part;
}

ImportReport ImportImagenet(const fs::path& folder, const std::string& name, const fs::path& out,
                            const ImportOptions& options) {
  const bool is_training = name == "train";
  if (!is_training && name != "val") {
    throw Error(ErrorKind::kUsage, {},
                StrCat("imagenet:FOLDER,PART: PART is train or val, not \"", Printable(name), "\""),
                DidYouMean(name, {"train", "val"}));
  }
  const ImagenetClasses classes = ReadImagenetClasses(folder, [&] { CheckImportStop(options); });
  ImagenetPart part = is_training ? FindTraining(folder, classes, options) : FindValidation(folder, classes, options);
  const auto count = std::ssize(part.index.pictures());
  const int64_t published = is_training ? kTrainPictures : kValPictures;
  if (count != published)
    part.warnings.push_back(StrCat(part.tar.string(), " has ", count, " pictures, the published one ", published));
  RecordWriter writer(out, options,
                      {.text = StrCat("imagenet ", folder.string(), " ", name),
                       .items = count,
                       .crc32c = part.index.crc32c(),
                       .bytes = part.index.bytes()});
  const auto tar = std::make_shared<const OpenFile>(OpenFile::ForReading(part.tar));
  for (const int64_t i : ImportOrder(count, options)) {
    const TarPicture& picture = part.index.pictures()[static_cast<size_t>(i)];
    ImportItem item{.name = part.index.NameOf(picture), .label = picture.label, .file_bytes = picture.bytes};
    item.read = [tar, picture, path = part.tar] {
      if (picture.bytes > kFileLimitBytes) {
        throw Error(ErrorKind::kBadData,
                    StrCat("has ", BytesText(picture.bytes), ", more than the limit of ", BytesText(kFileLimitBytes)));
      }
      std::string bytes(static_cast<size_t>(picture.bytes), '\0');
      const int64_t got = ReadAt(tar->fd(), picture.offset, bytes.data(), picture.bytes, path);
      if (got == picture.bytes) return bytes;
      throw Error(ErrorKind::kBadData, StrCat(Printable(path.string()), " ends inside the picture"));
    };
    writer.Add(std::move(item));
  }
  ImportReport report = writer.Finish(part.labels);
  report.warnings.insert(report.warnings.end(), part.warnings.begin(), part.warnings.end());
  return report;
}

}  // namespace

SourceKind ImagenetSource() {
  return {.kind = "imagenet",
          .parts = "FOLDER,PART",
          .makes = "ILSVRC-2012's archives as published; PART is train or val",
          .least = 2,
          .most = 2,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportImagenet(parts[0], parts[1], out, options);
          }};
}

}  // namespace moka
