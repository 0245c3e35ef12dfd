// Files by their names below a folder, or below a folder of an archive: what the importers of layouts of folders read.
// A compressed archive is unpacked to one file without a name in TMPDIR.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/left_out.h"

namespace moka {

class ArchiveReader;

// Whether a folder is there, or a link that leads to one.
bool IsFolder(const std::filesystem::path& path);

// The files of a folder or an archive, by name; of an archive's members only the places are kept. May be read by any
// number of threads.
class FileTree {
 public:
  // A folder; an archive (tar, plain or packed, or zip), whose root is the folder that all its files share; or a folder
  // of one: "set.tar/pictures". `step` is called at each member that is looked at, and may throw. Errors: kNoInput,
  // kNotAllowed, kBadData for a damaged archive.
  explicit FileTree(
      std::filesystem::path path, const std::function<void()>& step = [] {});
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;
  ~FileTree();

  // The names of a folder's files, without the folder's, in order and without hidden ones. "" is the root. Links that
  // lead nowhere are among them, so that their reading says so; folders are counted in `left_out`, if it is given.
  std::vector<std::string> FilesIn(const std::string& folder, LeftOut* left_out = nullptr) const;
  bool Has(const std::string& name) const;
  // 0 where there is no such file.
  int64_t BytesOf(const std::string& name) const;
  // Errors: kNoInput naming the file; those of reading.
  std::string Read(const std::string& name) const;
  // For messages.
  std::string PathOf(const std::string& name) const;

 private:
  struct Member {
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  void ReadArchive(const std::function<void()>& step);
  void Unpack(ArchiveReader& tar, int64_t offset) const;
  std::string ReadMember(const std::string& name, const Member& member) const;

  std::filesystem::path path_;
  std::filesystem::path archive_;          // empty: a folder
  std::map<std::string, Member> members_;  // of the archive, by their names below the root
  int fd_ = -1;                            // of the archive, or of what a compressed one holds
};

// The pictures of one folder of a tree by their names without the extension, which lists and masks go by.
class PicturesByStem {
 public:
  // Files in the folder that are no pictures by their names are counted in `left_out`, if it is given. Errors: those of
  // reading the folder.
  PicturesByStem(const FileTree& tree, const std::string& folder, LeftOut* left_out = nullptr);
  // The name of the file, empty where there is none. Errors: kBadData with the hint where several pictures are called
  // so.
  std::string FileOf(const std::string& stem, const std::string& hint) const;
  bool Has(const std::string& stem) const { return files_.contains(stem); }
  // Whether a file of just this name is there.
  bool HasFile(const std::string& file) const;
  // The stems in ascending order.
  std::vector<std::string> stems() const;

 private:
  std::string place_;  // the folder's path
  std::map<std::string, std::vector<std::string>> files_;
};

// Whether a name ends as those of pictures do that are read: .jpg, .png, .bmp, .webp, .gif, .tif, .ppm, .pgm, .pbm and
// their other spellings, in capitals too.
bool IsImageName(std::string_view name);
bool IsArchiveName(std::string_view name);
// Files that systems leave behind: nobody misses them.
bool IsSystemFile(std::string_view name);
// Returns the kind of a file that is no picture by its name, for LeftOut.
std::string KindOfNoPicture(std::string_view name);
// A file's name without its folders and its last extension.
std::string StemOf(const std::string& name);
// The bytes of a file; 0 where they cannot be seen: its reading says why.
int64_t BytesOfFile(const std::filesystem::path& path);
// Returns the entries of a folder, without hidden ones, in order. Errors: kNoInput.
std::vector<std::filesystem::path> SortedEntries(const std::filesystem::path& folder);
// The hidden folders in a folder, in order.
std::vector<std::filesystem::path> HiddenFoldersIn(const std::filesystem::path& folder);

}  // namespace moka
