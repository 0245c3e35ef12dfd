// Files: bounded reads, and writes that are either whole or absent (temporary name, fsync, verify, rename, fsync of the
// folder; docs/reliability.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// The limit for a file that is read as a whole and is of no kind that is larger by its nature.
inline constexpr int64_t kFileLimitBytes = int64_t{256} << 20;

// The bytes of a regular file. Errors: kNoInput if it is missing or not a regular file, kBadData if it is larger than
// limit_bytes (both numbers said) or large and for the most part never written (a cut copy has such holes), kNotAllowed
// without permission, kIo when a read fails.
std::string ReadFile(const std::filesystem::path& path, int64_t limit_bytes = kFileLimitBytes);

// The path that "-" stands for, where a pipe may be as well as a file.
inline constexpr const char* kStandardInput = "/dev/stdin";

struct TextLimits {
  int64_t bytes = int64_t{1} << 31;
  int64_t line_bytes = int64_t{16} << 20;
};
// The same of a file of lines. Besides, kBadData at the first byte of zero, and for a line longer than that: found
// while it is read, so that what is no text is not read to its end. Of kStandardInput what is still to come is read.
std::string ReadLinesFile(const std::filesystem::path& path, const TextLimits& limits = {});

// Writes a whole file beside its final name and moves it there on Commit(). Without Commit the temporary file is
// removed. One writer, one thread.
class AtomicFile {
 public:
  // Errors: kCantCreate (folder missing, read-only, a symlink or other file stands in the temporary name).
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Errors: kIo naming the path and the system's reason (disk full, ...).
  void Append(std::string_view bytes);
  void Append(const void* data, int64_t bytes);
  // fsync, close, re-open and compare size and checksum, rename, fsync of the folder. A failed fsync fails the file.
  void Commit();
  // Close and rename alone: whoever opens the file finds all of it, but a power cut may take it. Errors: kIo.
  void Place();

  uint32_t crc32c() const { return crc_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  uint32_t crc_ = 0;
  int64_t bytes_ = 0;
};

// AtomicFile in one call.
void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);
// The same without its syncs, which take most of the time of many small files: for what a command can make again.
void PlaceFile(const std::filesystem::path& path, std::string_view bytes);
// Moves a finished file, written by other means, to its final name: fsync, rename, fsync of the folder. Errors: kIo.
void CommitFile(const std::filesystem::path& temporary, const std::filesystem::path& path);
// Points a symlink at a sibling, atomically.
void ReplaceSymlink(const std::filesystem::path& link, const std::filesystem::path& target);
// fsync of a folder. Errors: kIo.
void SyncFolder(const std::filesystem::path& folder);
// Creates a folder and its parents. Errors: kCantCreate.
void CreateFolders(const std::filesystem::path& folder);
// Regular files of a folder whose names end with the suffix, sorted by name.
std::vector<std::filesystem::path> ListFiles(const std::filesystem::path& folder, std::string_view suffix);

}  // namespace moka
