// A region of shared memory as a client makes it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/text.h"

namespace moka {

class OwnMemory {
 public:
  // `name`: of this process.
  OwnMemory(const std::string& name, int64_t bytes)
      : key_(StrCat("/moka_test_", int64_t{getpid()}, "_", name)), bytes_(bytes) {
    shm_unlink(key_.c_str());
    file_ = shm_open(key_.c_str(), O_CREAT | O_RDWR | O_EXCL, 0600);
    Resize(bytes);
    memory_ = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() {
    munmap(memory_, static_cast<size_t>(bytes_));
    close(file_);
    shm_unlink(key_.c_str());
  }

  const std::string& key() const { return key_; }
  void Resize(int64_t bytes) const { [[maybe_unused]] const int done = ftruncate(file_, bytes); }
  void Write(const std::vector<float>& values, int64_t offset) const {
    std::memcpy(static_cast<char*>(memory_) + offset, values.data(), values.size() * sizeof(float));
  }
  std::vector<float> Read(int64_t offset, size_t count) const {
    std::vector<float> values(count);
    std::memcpy(values.data(), static_cast<const char*>(memory_) + offset, count * sizeof(float));
    return values;
  }

 private:
  std::string key_;
  int64_t bytes_;
  int file_ = -1;
  void* memory_ = nullptr;
};

}  // namespace moka
