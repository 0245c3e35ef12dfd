// An archive is listed once. A member of a plain tar is read later by its place in the file; a packed archive is
// unpacked to a file without a name first.
#include "data/files/file_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/system_reason.h"
#include "core/text.h"
#include "data/files/packed_file.h"
#include "data/image/image.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

bool IsVisible(const fs::path& path) { return !path.filename().string().starts_with('.'); }

// The entries of a folder that are wanted, in order.
std::vector<fs::path> EntriesOf(const fs::path& folder, bool (*is_wanted)(const fs::path&)) {
  std::error_code failed;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (is_wanted(it->path())) entries.push_back(it->path());
  }
  if (failed) {
    const bool is_denied = failed == std::errc::permission_denied;
    throw Error(is_denied ? ErrorKind::kNotAllowed : ErrorKind::kNoInput,
                StrCat("cannot read folder ", Printable(folder.string()), ": ", failed.message()));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// The archive that a path goes through, or empty.
fs::path ArchiveIn(const fs::path& path) {
  std::error_code ignored;
  fs::path begin;
  for (const fs::path& part : path) {
    begin /= part;
    if (IsArchiveName(begin.string()) && fs::is_regular_file(begin, ignored)) return begin;
  }
  return {};
}

// "a/b" of "./a//b/".
std::string PlainName(const fs::path& name) {
  std::string plain = name.lexically_normal().generic_string();
  if (plain == ".") return {};
  while (plain.ends_with('/')) plain.pop_back();
  return plain;
}

// The folder that all names share: "a/b" of "a/b/x" and "a/b/c/y".
std::string SharedFolder(const std::map<std::string, int64_t>& names) {
  if (names.empty()) return {};
  // In order, so that what the first and the last share is shared by all.
  const std::string& first = names.begin()->first;
  const std::string& last = names.rbegin()->first;
  const auto shared = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first - first.begin();
  const size_t slash = first.substr(0, static_cast<size_t>(shared)).rfind('/');
  return slash == std::string::npos ? std::string() : first.substr(0, slash);
}

// A file without a name, gone when it is closed.
int TemporaryFile() {
  std::error_code code;
  std::string name = (fs::temp_directory_path(code) / "moka.XXXXXX").string();
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) throw Error(ErrorKind::kCantCreate, StrCat("cannot create ", name, ": ", SystemReason()));
  unlink(name.c_str());
  return fd;
}

}  // namespace

bool IsImageName(std::string_view name) {
  constexpr std::array<std::string_view, 15> kExtensions = {".jpg",  ".jpeg", ".jpe", ".jfif", ".png",
                                                            ".apng", ".bmp",  ".dib", ".webp", ".gif",
                                                            ".tif",  ".tiff", ".ppm", ".pgm",  ".pbm"};
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string extension(name.substr(dot));
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

bool IsArchiveName(std::string_view name) {
  constexpr std::array<std::string_view, 11> kEndings = {".tar",  ".tar.gz", ".tgz",     ".tar.xz", ".txz", ".tar.bz2",
                                                         ".tbz2", ".tbz",    ".tar.zst", ".tzst",   ".zip"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

bool IsSystemFile(std::string_view name) {
  const std::string_view file = name.substr(name.rfind('/') + 1);
  return file.starts_with('.') || file == "Thumbs.db" || file == "desktop.ini" ||
         name.find("__MACOSX/") != std::string_view::npos;
}

std::string KindOfNoPicture(std::string_view name) {
  const std::string_view format = UnreadFormatOfName(name);
  return format.empty() ? "files that are no pictures by their names"
                        : StrCat(format, " files, a format that is not read");
}

std::string StemOf(const std::string& name) { return fs::path(name).stem().string(); }

int64_t BytesOfFile(const fs::path& path) {
  std::error_code failed;
  const uintmax_t bytes = fs::file_size(path, failed);
  return failed ? 0 : static_cast<int64_t>(bytes);
}

std::vector<fs::path> SortedEntries(const fs::path& folder) { return EntriesOf(folder, IsVisible); }

std::vector<fs::path> HiddenFoldersIn(const fs::path& folder) {
  return EntriesOf(folder, [](const fs::path& entry) {
    std::error_code ignored;
    return !IsVisible(entry) && fs::is_directory(entry, ignored);
  });
}

bool IsFolder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

FileTree::FileTree(fs::path path, const std::function<void()>& step)
    : path_(std::move(path)), archive_(ArchiveIn(path_)) {
  std::error_code ignored;
  if (!archive_.empty()) {
    try {
      ReadArchive(step);
    } catch (...) {  // no destructor runs
      if (fd_ >= 0) close(fd_);
      throw;
    }
  } else if (!fs::is_directory(path_, ignored)) {
    throw Error(ErrorKind::kNoInput, StrCat(path_.string(), " is neither a folder nor one of an archive"));
  }
}

FileTree::~FileTree() {
  if (fd_ >= 0) close(fd_);
}

void FileTree::ReadArchive(const std::function<void()>& step) {
  std::map<std::string, Member> all;
  std::map<std::string, int64_t> names;
  int64_t unpacked = 0;  // bytes of a compressed archive's members, which lie one behind the other
  ArchiveReader tar(archive_);
  while (tar.Next()) {
    step();
    Member member{.offset = tar.offset(), .bytes = tar.bytes()};
    if (!tar.is_plain()) {
      if (fd_ < 0) fd_ = TemporaryFile();
      member.offset = unpacked;
      Unpack(tar, unpacked);
      unpacked += member.bytes;
    }
    names[tar.name()] = member.bytes;
    all[tar.name()] = member;
  }
  for (const std::string& warning : tar.Warnings("the last counts")) LogWarning(warning);
  const std::string inside = PlainName(path_.lexically_relative(archive_));
  const std::string root = inside.empty() ? SharedFolder(names) : inside;
  for (auto& [name, member] : all) {
    if (root.empty()) {
      members_[name] = member;
    } else if (name.size() > root.size() && name.starts_with(root) && name[root.size()] == '/') {
      members_[name.substr(root.size() + 1)] = member;
    }
  }
  if (members_.empty()) {
    throw Error(ErrorKind::kNoInput,
                StrCat(archive_.string(), ": no files", inside.empty() ? "" : StrCat(" in its folder ", inside)));
  }
  if (fd_ < 0) fd_ = OpenFile::ForReading(archive_).Release();
}

// Copies the member that the reader stands at to the temporary file, from `offset` on.
void FileTree::Unpack(ArchiveReader& tar, int64_t offset) const {
  constexpr int64_t kStep = int64_t{1} << 20;
  std::string step;
  for (int64_t left = tar.bytes(); left > 0; left -= std::ssize(step)) {
    step = tar.ReadPart(std::min(left, kStep));
    for (size_t done = 0; done < step.size();) {
      const ssize_t n = pwrite(fd_, step.data() + done, step.size() - done, offset + static_cast<int64_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        throw Error(ErrorKind::kIo, {}, StrCat("cannot unpack ", archive_.string(), ": ", SystemReason()),
                    "TMPDIR names the folder that takes it");
      }
      done += static_cast<size_t>(n);
    }
    offset += std::ssize(step);
  }
}

std::vector<std::string> FileTree::FilesIn(const std::string& folder, LeftOut* left_out) const {
  std::vector<std::string> files;
  std::string last_folder;
  const auto leave_out = [&](const std::string& name) {
    constexpr const char* kFolders = "folders, which are not looked into";
    if (left_out != nullptr && name != last_folder && name != "__MACOSX")
      left_out->Add(kFolders, (fs::path(PathOf(folder)) / name).string());
    last_folder = name;
  };
  if (archive_.empty()) {
    std::error_code ignored;
    for (const fs::path& entry : SortedEntries(folder.empty() ? path_ : path_ / folder)) {
      const std::string name = entry.filename().string();
      fs::is_directory(entry, ignored) ? leave_out(name) : files.push_back(name);
    }
    return files;
  }
  const std::string front = folder.empty() ? std::string() : folder + "/";
  for (auto it = members_.lower_bound(front); it != members_.end() && it->first.starts_with(front); ++it) {
    std::string name = it->first.substr(front.size());
    if (name.starts_with('.')) continue;
    const size_t slash = name.find('/');
    slash != std::string::npos ? leave_out(name.substr(0, slash)) : files.push_back(std::move(name));
  }
  return files;
}

bool FileTree::Has(const std::string& name) const {
  std::error_code ignored;
  return archive_.empty() ? fs::is_regular_file(path_ / name, ignored) : members_.contains(PlainName(name));
}

int64_t FileTree::BytesOf(const std::string& name) const {
  if (archive_.empty()) {
    std::error_code failed;
    const uintmax_t bytes = fs::file_size(path_ / name, failed);
    return failed ? 0 : static_cast<int64_t>(bytes);
  }
  const auto found = members_.find(PlainName(name));
  return found == members_.end() ? 0 : found->second.bytes;
}

std::string FileTree::PathOf(const std::string& name) const {
  return name.empty() ? path_.string() : (path_ / name).string();
}

std::string FileTree::Read(const std::string& name) const {
  if (archive_.empty()) return ReadFile(path_ / name);
  const auto found = members_.find(PlainName(name));
  if (found == members_.end()) throw Error(ErrorKind::kNoInput, StrCat(PathOf(name), " is not in the archive"));
  return ReadMember(name, found->second);
}

std::string FileTree::ReadMember(const std::string& name, const Member& member) const {
  if (member.bytes > kFileLimitBytes) {
    throw Error(ErrorKind::kBadData, StrCat(PathOf(name), " has ", BytesText(member.bytes), ", more than the limit of ",
                                            BytesText(kFileLimitBytes)));
  }
  std::string bytes(static_cast<size_t>(member.bytes), '\0');
  if (ReadAt(fd_, member.offset, bytes.data(), member.bytes, PathOf(name)) != member.bytes) {
    throw Error(ErrorKind::kBadData, StrCat(archive_.string(), ": ends inside ", name));
  }
  return bytes;
}

PicturesByStem::PicturesByStem(const FileTree& tree, const std::string& folder, LeftOut* left_out)
    : place_(tree.PathOf(folder)) {
  for (const std::string& file : tree.FilesIn(folder, left_out)) {
    if (IsImageName(file)) {
      files_[StemOf(file)].push_back(file);
    } else if (left_out != nullptr && !IsSystemFile(file)) {
      left_out->Add(KindOfNoPicture(file), (fs::path(place_) / file).string());
    }
  }
}

std::string PicturesByStem::FileOf(const std::string& stem, const std::string& hint) const {
  const auto found = files_.find(stem);
  if (found == files_.end()) return {};
  if (found->second.size() == 1) return found->second.front();
  throw Error(ErrorKind::kBadData, {},
              StrCat(place_, " has ", found->second.size(), " pictures of the name \"", Printable(stem),
                     "\": ", Printable(Join(found->second, ", "))),
              hint);
}

bool PicturesByStem::HasFile(const std::string& file) const {
  const auto found = files_.find(StemOf(file));
  return found != files_.end() && std::ranges::find(found->second, file) != found->second.end();
}

std::vector<std::string> PicturesByStem::stems() const {
  std::vector<std::string> stems;
  stems.reserve(files_.size());
  for (const auto& [stem, files] : files_) stems.push_back(stem);
  return stems;
}

}  // namespace moka
