// A file mapped for reading that may shrink, or lose its disk, while it is mapped. The system answers a read of a page
// that is no longer there with SIGBUS, which ends a program without a word. Here a handler puts a page of zeros in its
// place and marks the file as lost: the read goes on, and whoever used what it read asks Check() afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace moka {

// Any number of threads may read and check. The bytes live as long as the object.
class MappedFile {
 public:
  MappedFile() = default;
  // Maps the first `bytes` of an open regular file, which stays open as the object's own. `path` is for messages.
  // Errors: kIo. Requires: bytes > 0.
  MappedFile(int fd, int64_t bytes, std::filesystem::path path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Null where nothing is mapped.
  const char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  // Whether every page that was read so far was there: one load of memory. Errors: kIo naming the file.
  void Check() const {
    if (slot_ != nullptr && IsLost()) ThrowLost();
  }
  // Besides, asks the system whether the file has been written or cut since it was mapped (about 0.3 us). Errors: kIo.
  void CheckUnchanged() const;

 private:
  struct Slot;
  friend struct MappedFileSlots;

  bool IsLost() const;
  [[noreturn]] void ThrowLost() const;

  std::filesystem::path path_;
  const char* data_ = nullptr;
  int64_t bytes_ = 0;
  int fd_ = -1;
  int64_t written_ns_ = 0;  // when the file was written last, as it was mapped
  Slot* slot_ = nullptr;
};

}  // namespace moka
