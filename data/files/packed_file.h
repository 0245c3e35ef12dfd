// Sequential reading of plain files and of such that gzip, xz, bzip2 or Zstandard packed, of the tar archives inside
// them, and of zip archives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/open_file.h"
#include "data/files/left_out.h"
#include "data/files/packed_stream.h"
#include "data/files/zip_members.h"

namespace moka {

// A part of a plain file: an archive that lies in another one.
struct FileRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

class PackedFile {
 public:
  // Errors: kNoInput, kNotAllowed.
  explicit PackedFile(std::filesystem::path path);
  // A part of a file, as it is: what is skipped is not read.
  PackedFile(std::filesystem::path path, const FileRange& range);
  // Up to `bytes` bytes; fewer only at the end. Errors: kBadData when the compression is damaged, or packs so tightly
  // that no data are like it.
  int64_t Read(char* data, int64_t bytes);
  // Exactly `bytes` bytes. Errors: kBadData naming the path and `what` when the file ends before.
  void ReadExactly(char* data, int64_t bytes, std::string_view what);
  void Skip(int64_t bytes);
  // Bytes read or skipped, after decompression; of a part, its place in the file.
  int64_t offset() const;
  // Whether the file is not compressed, so that an offset is a place in it. Requires: something was read.
  bool is_plain() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(void* file) const;
  };
  std::filesystem::path path_;
  std::optional<OpenFile> whole_;         // that a part is read from
  FileRange rest_;                        // of the part, not yet read
  std::unique_ptr<void, Close> file_;     // plain or of gzip
  std::unique_ptr<PackedStream> packed_;  // instead of it, by another program
  int64_t packed_offset_ = 0;
};

// Regular files of a tar archive in its order: v7, ustar, GNU (long names, sizes in base 256) and pax (POSIX 2001: path
// and size in extended headers). Nothing is unpacked to disk, so names are only names. What is no regular file
// (links, devices, sparse files) has no bytes to read and is told in Warnings(). A zip archive is read alike; programs
// of Windows write backslashes between its folders.
class ArchiveReader {
 public:
  // Errors: those of PackedFile; kBadData for a damaged zip archive.
  explicit ArchiveReader(const std::filesystem::path& path);
  // A plain tar archive that is a part of a file; offset() is then a place in that file.
  ArchiveReader(const std::filesystem::path& path, const FileRange& range) : file_(path, range) {}
  // Steps to the next regular file; false at the end. Errors: kBadData for a damaged archive, and for a member whose
  // name leaves its folder ("..").
  bool Next();
  // "a/b", of "./a//b" and "/a/b" too.
  const std::string& name() const { return plain_name_; }
  int64_t bytes() const { return zip_ ? zip_->bytes() : bytes_; }
  // Where its bytes begin in the archive. Requires: Read() was not called for it.
  int64_t offset() const { return file_.offset(); }
  bool is_plain() const { return !zip_ && file_.is_plain(); }
  // Sentences, with the archive's name: what was met so far and is no regular file, or has the name of one before it,
  // of which `repeated` says what becomes, and, at the end, what stands there in place of an end mark or behind it.
  std::vector<std::string> Warnings(std::string_view repeated = "each counts") const;
  // The whole present file. Requires: Next() returned true; called at most once for it. Errors: kBadData where it is
  // larger than a file that is read as a whole may be.
  std::string Read();
  // The next part of the present file. Requires: so much is left of it.
  std::string ReadPart(int64_t bytes);

 private:
  // The facts that an extended header gives of a member, or of all that follow; empty and -1: nothing.
  struct Extended {
    std::string path{};
    int64_t bytes = -1;
    bool is_sparse = false;
  };

  bool NextFile();
  void TakeName();
  bool ReadHeader(char& type);
  void SetBytes(int64_t bytes);
  std::string ReadLongName();
  void ReadExtended(Extended& extended);
  // Takes what stands before a member into its name and size. False for one without bytes to read.
  bool TakeMember(char type, Extended own);
  void LookBehindEnd();

  PackedFile file_;
  std::unique_ptr<ZipMembers> zip_;         // instead of a tar archive
  std::string name_;                        // as a tar archive has it
  std::string plain_name_;                  // of a regular file
  std::unordered_set<uint64_t> names_met_;  // hashes
  std::string long_name_;
  int64_t bytes_ = 0;
  int64_t pending_ = 0;  // bytes up to the next header
  Extended global_;
  LeftOut left_out_;
  LeftOut repeated_;
  bool has_end_ = true;     // until the archive ends without its mark
  bool is_joined_ = false;  // to another archive, which stands behind its end
};

}  // namespace moka
