// The bytes inside a file that xz, bzip2 or Zstandard packed, through libarchive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace moka {

class PackedStream {
 public:
  // The packer's name by a file's first bytes; empty for a file that it did not pack.
  static std::string_view PackerOf(std::string_view begin);
  // Errors: kNoInput, kBadData.
  PackedStream(const std::filesystem::path& path, std::string_view packer);
  PackedStream(const PackedStream&) = delete;
  PackedStream& operator=(const PackedStream&) = delete;
  ~PackedStream();

  // Up to `bytes` bytes; fewer only at the end. Errors: kBadData when the file is damaged or truncated.
  int64_t Read(char* data, int64_t bytes);
  // Returns the bytes of the file that were read so far.
  int64_t packed_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moka
