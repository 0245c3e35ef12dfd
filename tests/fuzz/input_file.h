// The input of a fuzz target as a file, for readers that take a path: one file a target, in TMPDIR, written anew for
// each input.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace moka {

class InputFile {
 public:
  // `name` may begin with folders, which are made.
  explicit InputFile(std::string_view name)
      : folder_(std::filesystem::temp_directory_path() / StrCat("moka_fuzz.", ::getpid())), path_(folder_ / name) {
    std::filesystem::create_directories(path_.parent_path());
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    Require(fd_ >= 0, "a folder for temporary files");
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() {
    ::close(fd_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& Write(std::string_view bytes) {
    const auto length = static_cast<ssize_t>(bytes.size());
    const bool is_written = ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, bytes.data(), bytes.size(), 0) == length;
    Require(is_written, "room for the input");
    return path_;
  }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace moka
