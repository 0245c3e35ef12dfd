// Opening what a user, a run's folder or a cache names. What is no regular file is refused by its kind: a FIFO is never
// waited for and a device never read. In folders that Moka writes, links are not followed and other users' files not
// used, so that nobody who can write there makes this process write or read elsewhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

namespace moka {

// An open regular file. One thread at a time.
class OpenFile {
 public:
  // A link to a regular file is followed. Errors: kNoInput if it is missing or of another kind (files of procfs and
  // sysfs, too), kNotAllowed without permission.
  static OpenFile ForReading(const std::filesystem::path& path);
  // For a folder that Moka writes: made if missing, links not followed; what is appended goes to the end. Errors:
  // kCantCreate, and kNotAllowed for a link, a file of another kind or of another user.
  static OpenFile ForAppending(const std::filesystem::path& path);
  // As ForAppending, to be read and written anywhere.
  static OpenFile ForUpdating(const std::filesystem::path& path);
  // As ForAppending, to be read; kCantCreate where it is missing.
  static OpenFile ForReadingOwn(const std::filesystem::path& path);

  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}
  OpenFile& operator=(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  int fd() const { return fd_; }
  // As it was opened.
  int64_t bytes() const { return bytes_; }
  // The descriptor, which is the caller's to close.
  int Release() { return std::exchange(fd_, -1); }
  // Fewer bytes than asked for at the end of the file only. `path` is for messages. Errors: kIo.
  int64_t ReadAt(int64_t offset, char* data, int64_t bytes, const std::filesystem::path& path) const;

 private:
  OpenFile(int fd, int64_t bytes) : fd_(fd), bytes_(bytes) {}
  static OpenFile OpenOwn(const std::filesystem::path& path, int flags);

  int fd_ = -1;
  int64_t bytes_ = 0;
};

// pread(2) until `bytes` or the end of the file; goes on when it is interrupted. `path` is for messages. Errors: kIo.
int64_t ReadAt(int fd, int64_t offset, char* data, int64_t bytes, const std::filesystem::path& path);

// Returns the kind that a mode of stat(2) says: "a regular file", "a folder", "a FIFO", "a device", "a socket", "a
// symbolic link".
std::string_view KindOfFile(unsigned mode);

// A file that is about to take a name by a rename may take no device's, nor one in /dev or /proc (/dev/shm excepted).
// Errors: kCantCreate.
void CheckReplaceable(const std::filesystem::path& path);

// Whether the path is the folder or lies in it or in its folders. Both are canonical.
bool IsBelow(const std::filesystem::path& path, const std::filesystem::path& folder);

// Returns the target of a link in a folder that Moka made: a file of the same folder. Errors: kNotAllowed for any other
// target.
std::filesystem::path TargetInFolder(const std::filesystem::path& link);

// Everything in a folder that Moka goes on writing must be a regular file or a folder of this user or root, or a link
// that stays inside. Errors: kNoInput if it is missing, kIo if it cannot be listed, kNotAllowed naming the path and
// what it is.
void CheckOwnFolder(const std::filesystem::path& folder);

}  // namespace moka
