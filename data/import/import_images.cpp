// Importers of image files: folders, lists, tar archives.
#include <set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/left_out.h"
#include "data/files/list_text.h"
#include "data/files/packed_file.h"
#include "data/files/picture_walk.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/annotated_layout.h"
#include "data/labels/class_folders.h"
#include "data/labels/mask_folders.h"
#include "data/records/record_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAreClasses = "if these are the classes, a file of their names says so: --classes FILE";

// Returns the kind of a file that lies in no class's folder, by its name.
std::string KindLeftOut(std::string_view name) {
  constexpr const char* kNoClass = "pictures that lie in no class's folder";
  return IsImageName(name) ? kNoClass : KindOfNoPicture(name);
}

struct File {
  fs::path path;
  int32_t label = 0;
  int line = 0;       // of the list
  int64_t bytes = 0;  // as MeasureFiles has seen them
};

// Sets the files' bytes and returns their sum.
int64_t MeasureFiles(std::vector<File>& files) {
  int64_t bytes = 0;
  for (File& file : files) bytes += file.bytes = BytesOfFile(file.path);
  return bytes;
}

ImportItem FileItem(const File& file, int32_t label, std::string name) {
  ImportItem item{.name = std::move(name), .label = label, .file_bytes = file.bytes};
  item.read = [path = file.path] { return ReadFile(path); };
  return item;
}

// Errors: those of reading, at the list's line.
std::string ReadListed(const fs::path& path, const fs::path& list, const fs::path& root, int line) {
  try {
    return ReadFile(path);
  } catch (const Error& e) {
    throw Error(e.kind(), {}, StrCat(list.string(), ":", line, ": ", e.text()),
                e.kind() == ErrorKind::kNoInput ? RootHint("list", list, root, path) : e.hint());
  }
}

ImportItem BytesItem(std::string bytes, int32_t label, std::string name) {
  ImportItem item{.name = std::move(name), .label = label};
  item.held_bytes = static_cast<int64_t>(bytes.size());
  item.read = [bytes = std::move(bytes)] { return bytes; };
  return item;
}

// The name up to and with the first folder that is hidden, such as a notebook's .ipynb_checkpoints; empty if none is.
std::string_view HiddenFolderOf(std::string_view name) {
  for (size_t begin = 0, slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', begin)) {
    const std::string_view folder = name.substr(begin, slash - begin);
    if (folder.starts_with('.') && folder != "." && folder != "..") return name.substr(0, slash);
    begin = slash + 1;
  }
  return {};
}

// A tar member's name below its split's folder; empty when it does not belong to it.
std::string_view BelowSplit(std::string_view name, std::string_view split) {
  if (split.empty()) return name;
  if (!name.starts_with(split) || name.substr(split.size(), 1) != "/") return {};
  return name.substr(split.size() + 1);
}

// The class of a tar member SPLIT/CLASS/IMAGE, or SPLIT/CLASS/FOLDERS/IMAGE; empty for any other.
std::string_view ClassOf(std::string_view name, std::string_view split) {
  name = BelowSplit(name, split);
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos || IsSystemFile(name) || !IsImageName(name)) return {};
  if (!HiddenFolderOf(name).empty()) return {};
  return name.substr(0, slash);
}

// Pictures and masks of the same names are no classes either. Errors: kBadData.
void RefuseMasks(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return;
  const std::vector<MaskFolders> parts = MaskFoldersOf(folder);
  if (parts.empty() || !HaveEqualNames(parts.front())) return;
  std::vector<std::string> sources;
  const char* kind = parts.front().masks.filename() == kNumbersFolder ? "instances:" : "masks:";
  for (const MaskFolders& part : parts)
    sources.push_back(StrCat(kind, part.pictures.string(), ",", part.masks.string()));
  throw Error(ErrorKind::kBadData, {},
              StrCat(Printable(folder.string()), ": its folders hold pictures and masks of the same names, and are no ",
                     "classes"),
              StrCat("as such they are ", Printable(Join(sources, " or ")), "; ", kAreClasses));
}

// Folders of annotated pictures are no classes, even where each of them holds pictures. Errors: kBadData.
void RefuseAnnotated(const fs::path& path, const ImportOptions& options) {
  if (!options.classes.empty()) return;
  const AnnotatedLayout layout = AnnotatedLayoutOf(path);
  if (layout.name.empty()) return RefuseMasks(path);
  std::vector<std::string> sources;
  for (const PartSource& part : layout.parts) sources.push_back(part.source);
  if (sources.empty()) sources.push_back(StrCat("voc:", layout.root.string(), ",SPLIT"));
  throw Error(ErrorKind::kBadData, {},
              StrCat(Printable(path.string()), ": its folders are those of ", layout.name,
                     "'s annotated pictures, and not classes"),
              StrCat("as such they are ", Printable(Join(sources, " or ")), "; ", kAreClasses));
}

// The classes of a split, and how many images it has.
struct TarContents {
  ClassFolders classes;
  int64_t images = 0;
  int64_t bytes = 0;    // of the images
  uint32_t crc32c = 0;  // of their names and sizes
  std::vector<std::string> warnings;
};

// Errors: kBadData.
void RefuseParts(const fs::path& tar, std::string_view split, const ClassFolders& classes) {
  const std::string holder = classes.HolderOfClasses();
  const std::string part = split.empty() ? holder : StrCat(split, "/", holder);
  // Commas part a source's text, so a path with a comma cannot be suggested.
  const bool is_named = !holder.empty() && StrCat(tar.string(), part).find(',') == std::string::npos;
  const std::string found =
      split.empty() ? "its top folders are: " : StrCat("the folders in ", Printable(split), " are: ");
  throw Error(ErrorKind::kBadData, {},
              StrCat(tar.string(), ": no member is ", split.empty() ? "" : StrCat(split, "/"), "CLASS/IMAGE; ", found,
                     Printable(Join(classes.names(), ", ")),
                     classes.HavePictures() ? ", which are called as the parts of a set are" : ""),
              StrCat(is_named ? StrCat("tar:", tar.string(), ",", Printable(part), " names that of the classes; ") : "",
                     kAreClasses));
}

// Errors: kBadData.
[[noreturn]] void RefuseNoImages(const fs::path& tar, std::string_view split, bool has_files,
                                 const std::set<std::string, std::less<>>& folders) {
  throw Error(ErrorKind::kBadData, {},
              StrCat(tar.string(), ": no member is ", split.empty() ? "" : StrCat(split, "/"), "CLASS/IMAGE"),
              folders.empty()
                  ? (has_files ? "its files lie in no folder" : "it has no files")
                  : StrCat("its top folders are: ", Printable(Join({folders.begin(), folders.end()}, ", "))));
}

TarContents ListTar(const fs::path& tar, std::string_view split, const ImportOptions& options) {
  TarContents contents{.classes = ClassFolders(options.classes), .warnings = {}};
  std::set<std::string, std::less<>> folders;
  std::set<std::string, std::less<>> hidden_folders;
  LeftOut left_out;
  ArchiveReader reader(tar);
  while (reader.Next()) {
    CheckImportStop(options);
    const std::string_view below = BelowSplit(reader.name(), split);
    const size_t slash = reader.name().find('/');
    if (slash != std::string::npos && !IsSystemFile(reader.name())) folders.insert(reader.name().substr(0, slash));
    if (ClassOf(reader.name(), split).empty()) {
      const std::string_view hidden = HiddenFolderOf(below);
      if (!hidden.empty()) {
        if (hidden_folders.emplace(hidden).second) left_out.Add(kHiddenFolders, hidden);
      } else if (!below.empty() && !IsSystemFile(below)) {
        left_out.Add(KindLeftOut(below), below);
      }
      continue;
    }
    contents.classes.Add(below);
    ++contents.images;
    contents.bytes += reader.bytes();
    contents.crc32c = Crc32c(StrCat(reader.name(), "\t", reader.bytes(), "\n"), contents.crc32c);
  }
  const bool are_no_classes = contents.images == 0 || contents.classes.AreNone();
  if (are_no_classes && split.empty() && !reader.name().empty()) RefuseAnnotated(tar, options);
  if (contents.images == 0) RefuseNoImages(tar, split, !reader.name().empty(), folders);
  if (contents.classes.AreNone()) RefuseParts(tar, split, contents.classes);
  contents.classes.Number(tar.string());
  contents.crc32c = contents.classes.Checksum(contents.crc32c);
  contents.warnings = left_out.Sentences();
  for (std::string& warning : reader.Warnings()) contents.warnings.push_back(std::move(warning));
  for (std::string& warning : contents.classes.Warnings()) contents.warnings.push_back(std::move(warning));
  return contents;
}

// Errors: kBadData.
void RefuseParts(const fs::path& folder, const ClassFolders& classes) {
  const std::string holder = classes.HolderOfClasses();
  throw Error(ErrorKind::kBadData, {},
              StrCat(Printable(folder.string()), ": its folders (", Printable(Join(classes.names(), ", ")), ") ",
                     classes.HavePictures() ? "are called as the parts of a set are, and not as classes"
                                            : "hold folders of pictures and no pictures"),
              StrCat(holder.empty() ? ""
                                    : StrCat("import the folder of the classes, such as ",
                                             Printable((folder / holder).string()), "; "),
                     kAreClasses));
}

}  // namespace

ImportReport ImportFolder(const fs::path& folder, const fs::path& out, const ImportOptions& options) {
  RefuseAnnotated(folder, options);
  std::vector<File> files;
  ClassFolders classes(options.classes);
  std::error_code ignored;
  LeftOut left_out;
  PictureWalk walk(folder, left_out);
  NameHidden(folder, left_out);
  std::vector<std::string> names;
  uint32_t crc = 0;
  for (const fs::path& entry : SortedEntries(folder)) {
    const std::string name = entry.filename().string();
    if (!fs::is_directory(entry, ignored)) {
      if (!IsSystemFile(name)) left_out.Add(KindLeftOut(name), name);
      continue;
    }
    const std::vector<fs::path> pictures = walk.PicturesIn(entry);
    for (const fs::path& picture : pictures) {
      files.push_back({picture});
      names.push_back(picture.lexically_relative(folder).generic_string());
      classes.Add(names.back());
      crc = Crc32c(StrCat(names.back(), "\n"), crc);
    }
    if (pictures.empty() && name != "__MACOSX") left_out.Add("folders without a picture, which are no classes", name);
  }
  if (files.empty()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(folder.string(), ": no images in class folders"),
                "expected FOLDER/CLASS/IMAGE with .jpg, .png, .bmp, .webp, .gif, .tif, .ppm, .pgm or .pbm files");
  }
  if (classes.AreNone()) RefuseParts(folder, classes);
  classes.Number(folder.string());
  const auto count = static_cast<int64_t>(files.size());
  RecordWriter writer(out, options,
                      {.text = StrCat("folder ", folder.string()),
                       .items = count,
                       .crc32c = classes.Checksum(crc),
                       .bytes = MeasureFiles(files)});
  for (const int64_t i : ImportOrder(count, options)) {
    std::string& name = names[static_cast<size_t>(i)];
    const int32_t label = classes.LabelOf(std::string_view(name).substr(0, name.find('/')));
    writer.Add(FileItem(files[static_cast<size_t>(i)], label, std::move(name)));
  }
  ImportReport report = writer.Finish(classes.labels());
  for (std::string& sentence : left_out.Sentences()) report.warnings.push_back(std::move(sentence));
  for (std::string& sentence : classes.Warnings()) report.warnings.push_back(std::move(sentence));
  return report;
}

ImportReport ImportList(const fs::path& list, const fs::path& root, const fs::path& out, const ImportOptions& options) {
  const std::vector<ListedImage> images = ReadImageList(list);
  std::vector<File> files;
  for (const ListedImage& image : images) files.push_back({root / image.path, image.label, image.line});
  const auto count = static_cast<int64_t>(images.size());
  RecordWriter writer(out, options,
                      {.text = StrCat("list ", list.string(), " ", root.string()),
                       .items = count,
                       .crc32c = ChecksumOf(images),
                       .bytes = MeasureFiles(files)});
  for (const int64_t i : ImportOrder(count, options)) {
    const File& file = files[static_cast<size_t>(i)];
    ImportItem item{.name = images[static_cast<size_t>(i)].path, .label = file.label, .file_bytes = file.bytes};
    item.read = [&file, &list, &root] { return ReadListed(file.path, list, root, file.line); };
    writer.Add(std::move(item));
  }
  return writer.Finish({});
}

// Imports an archive. Without shuffling it is streamed; with it, its images are held in memory.
ImportReport ImportTar(const fs::path& tar, std::string_view split, const fs::path& out, const ImportOptions& options) {
  const TarContents contents = ListTar(tar, split, options);
  RecordWriter writer(out, options,
                      {.text = StrCat("tar ", tar.string(), split.empty() ? "" : " ", split),
                       .items = contents.images,
                       .crc32c = contents.crc32c,
                       .bytes = contents.bytes});
  struct Member {
    std::string name;
    std::string bytes;
  };
  std::vector<Member> members;
  for (ArchiveReader reader(tar); !writer.full() && reader.Next();) {
    const std::string_view name = ClassOf(reader.name(), split);
    if (name.empty()) continue;
    CheckImportStop(options);
    if (options.shuffle_seed) {
      members.push_back({reader.name(), reader.Read()});
    } else if (!writer.SkipKept()) {
      writer.Add(BytesItem(reader.Read(), contents.classes.LabelOf(name), reader.name()));
    }
  }
  if (options.shuffle_seed) {
    for (const int64_t i : ImportOrder(static_cast<int64_t>(members.size()), options)) {
      Member& member = members[static_cast<size_t>(i)];
      const int32_t label = contents.classes.LabelOf(ClassOf(member.name, split));
      writer.Add(BytesItem(std::move(member.bytes), label, std::move(member.name)));
    }
  }
  ImportReport report = writer.Finish(contents.classes.labels());
  report.warnings.insert(report.warnings.end(), contents.warnings.begin(), contents.warnings.end());
  return report;
}

SourceKind ListSource() {
  return {.kind = "list",
          .parts = "FILE[,ROOT]",
          .makes = "lines \"path label\"",
          .least = 1,
          .most = 2,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportList(parts[0], parts[1], out, options);
          }};
}

SourceKind TarSource() {
  return {.kind = "tar",
          .parts = "FILE[,SPLIT]",
          .makes = "members SPLIT/CLASS/PICTURE",
          .least = 1,
          .most = 2,
          .import = [](const SourceParts& parts, const std::filesystem::path& out,
                       const ImportOptions& options) { return ImportTar(parts[0], parts[1], out, options); },
          .has_class_folders = true};
}

}  // namespace moka
