// Sequential reading of plain or gzip-compressed files, and of the tar archives inside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace moka {

class GzFile {
 public:
  // Errors: kNoInput, kNotAllowed.
  explicit GzFile(std::filesystem::path path);
  // Up to `bytes` bytes; fewer only at the end. Errors: kBadData when the compression is damaged.
  int64_t Read(char* data, int64_t bytes);
  // Exactly `bytes` bytes. Errors: kBadData naming the path and `what` when the file ends before.
  void ReadExactly(char* data, int64_t bytes, std::string_view what);
  void Skip(int64_t bytes);
  // Bytes read or skipped, after decompression.
  int64_t offset() const;
  // Whether the file is not compressed, so that an offset is a place in it. Requires: something was read.
  bool is_plain() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(void* file) const;
  };
  std::filesystem::path path_;
  std::unique_ptr<void, Close> file_;
};

// Regular files of a ustar (or GNU) archive, in its order. Nothing is unpacked to disk, so names are only names.
class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& path) : file_(path) {}
  // Steps to the next regular file; false at the end. Errors: kBadData for a damaged archive.
  bool Next();
  const std::string& name() const { return name_; }
  int64_t bytes() const { return bytes_; }
  // Where its bytes begin in the archive. Requires: Read() was not called for it.
  int64_t offset() const { return file_.offset(); }
  bool is_plain() const { return file_.is_plain(); }
  // The whole present file. Requires: Next() returned true; called at most once for it.
  std::string Read();

 private:
  bool ReadHeader(char& type);
  std::string ReadLongName();

  GzFile file_;
  std::string name_;
  std::string long_name_;
  int64_t bytes_ = 0;
  int64_t pending_ = 0;  // bytes up to the next header
};

}  // namespace moka
