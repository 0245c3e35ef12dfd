// Importers of image files: folders, lists, tar archives.
#include <algorithm>
#include <set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/file_tree.h"
#include "data/gz_file.h"
#include "data/record_source.h"
#include "data/record_writer.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct File {
  fs::path path;
  int32_t label = 0;
};

// Those that cannot be seen count nothing: their reading will say why.
int64_t TotalBytes(const std::vector<File>& files) {
  int64_t bytes = 0;
  for (const File& file : files) {
    std::error_code failed;
    const uintmax_t size = fs::file_size(file.path, failed);
    if (!failed) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

ImportItem FileItem(const fs::path& path, int32_t label, std::string name) {
  ImportItem item{.name = std::move(name), .label = label};
  item.read = [path] { return ReadFile(path); };
  return item;
}

ImportItem BytesItem(std::string bytes, int32_t label, std::string name) {
  ImportItem item{.name = std::move(name), .label = label};
  item.read = [bytes = std::move(bytes)] { return bytes; };
  return item;
}

// The class of a tar member SPLIT/CLASS/IMAGE, or empty when the member does not belong to the split.
std::string_view ImportImagesClassOf(std::string_view name, std::string_view split) {
  if (name.starts_with("./")) name.remove_prefix(2);
  if (!split.empty()) {
    if (!name.starts_with(split) || name.substr(split.size(), 1) != "/") return {};
    name.remove_prefix(split.size() + 1);
  }
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos || name.find('/', slash + 1) != std::string_view::npos) return {};
  const std::string_view file = name.substr(slash + 1);
  return !file.starts_with('.') && IsImageName(file) ? name.substr(0, slash) : std::string_view();
}

// The classes of a split in order, and how many images it has.
struct TarContents {
  std::vector<std::string> labels;
  int64_t images = 0;
  int64_t bytes = 0;    // of the images
  uint32_t crc32c = 0;  // of their names and sizes
  int32_t LabelOf(std::string_view name) const {
    return static_cast<int32_t>(std::lower_bound(labels.begin(), labels.end(), name) - labels.begin());
  }
};

TarContents ListTar(const fs::path& tar, std::string_view split, const ImportOptions& options) {
  TarContents contents;
  std::set<std::string, std::less<>> classes;
  std::set<std::string, std::less<>> folders;
  for (TarReader reader(tar); reader.Next();) {
    CheckImportStop(options);
    const std::string_view name = ImportImagesClassOf(reader.name(), split);
    folders.insert(reader.name().substr(0, reader.name().find('/')));
    if (name.empty()) continue;
    ++contents.images;
    contents.bytes += reader.bytes();
    contents.crc32c = Crc32c(StrCat(reader.name(), "\t", reader.bytes(), "\n"), contents.crc32c);
    if (!classes.contains(name)) classes.emplace(name);
  }
  if (contents.images == 0) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(tar.string(), ": no member is ", split.empty() ? "" : StrCat(split, "/"), "CLASS/IMAGE"),
                StrCat("its top folders are: ", Join({folders.begin(), folders.end()}, ", ")));
  }
  contents.labels.assign(classes.begin(), classes.end());
  return contents;
}

}  // namespace

ImportReport ImportFolder(const fs::path& folder, const fs::path& out, const ImportOptions& options) {
  std::vector<File> files;
  std::vector<std::string> labels;
  std::error_code ignored;
  for (const fs::path& entry : SortedEntries(folder)) {
    if (!fs::is_directory(entry, ignored)) continue;
    const size_t before = files.size();
    for (const fs::path& file : SortedEntries(entry)) {
      if (IsImageName(file.filename().string())) files.push_back({file, static_cast<int32_t>(labels.size())});
    }
    if (files.size() > before) labels.push_back(entry.filename().string());
  }
  if (files.empty()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(folder.string(), ": no images in class folders"),
                "expected FOLDER/CLASS/IMAGE with .jpg, .png, .bmp, .webp or .gif files");
  }
  uint32_t crc = 0;
  std::vector<std::string> names;
  for (const File& file : files) {
    names.push_back(StrCat(labels[static_cast<size_t>(file.label)], "/", file.path.filename().string()));
    crc = Crc32c(StrCat(names.back(), "\n"), crc);
  }
  const auto count = static_cast<int64_t>(files.size());
  RecordWriter writer(
      out, options,
      {.text = StrCat("folder ", folder.string()), .items = count, .crc32c = crc, .bytes = TotalBytes(files)});
  for (const int64_t i : ImportOrder(count, options)) {
    const File& file = files[static_cast<size_t>(i)];
    writer.Add(FileItem(file.path, file.label, std::move(names[static_cast<size_t>(i)])));
  }
  return writer.Finish(std::move(labels));
}

ImportReport ImportList(const fs::path& list, const fs::path& root, const fs::path& out, const ImportOptions& options) {
  const std::vector<ListedImage> images = ReadImageList(list);
  std::vector<File> files;
  for (const ListedImage& image : images) files.push_back({root / image.path, image.label});
  const auto count = static_cast<int64_t>(images.size());
  RecordWriter writer(out, options,
                      {.text = StrCat("list ", list.string(), " ", root.string()),
                       .items = count,
                       .crc32c = ChecksumOf(images),
                       .bytes = TotalBytes(files)});
  for (const int64_t i : ImportOrder(count, options)) {
    const File& file = files[static_cast<size_t>(i)];
    writer.Add(FileItem(file.path, file.label, images[static_cast<size_t>(i)].path));
  }
  return writer.Finish({});
}

// Without shuffling the archive is streamed; with it, its images are held in memory.
ImportReport ImportTar(const fs::path& tar, std::string_view split, const fs::path& out, const ImportOptions& options) {
  TarContents contents = ListTar(tar, split, options);
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
  for (TarReader reader(tar); !writer.full() && reader.Next();) {
    const std::string_view name = ImportImagesClassOf(reader.name(), split);
    if (name.empty()) continue;
    CheckImportStop(options);
    if (options.shuffle_seed) {
      members.push_back({reader.name(), reader.Read()});
    } else if (!writer.SkipKept()) {
      writer.Add(BytesItem(reader.Read(), contents.LabelOf(name), reader.name()));
    }
  }
  if (options.shuffle_seed) {
    for (const int64_t i : ImportOrder(static_cast<int64_t>(members.size()), options)) {
      Member& member = members[static_cast<size_t>(i)];
      const int32_t label = contents.LabelOf(ImportImagesClassOf(member.name, split));
      writer.Add(BytesItem(std::move(member.bytes), label, std::move(member.name)));
    }
  }
  return writer.Finish(std::move(contents.labels));
}

}  // namespace moka
