// Regular files of a zip archive in its order, through libzip (zip64 too). Nothing is unpacked to disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "data/files/left_out.h"

namespace moka {

class ZipMembers {
 public:
  // Whether a file's first bytes are a zip archive's.
  static bool IsZip(std::string_view begin);
  // Errors: kBadData for an archive that cannot be read.
  explicit ZipMembers(const std::filesystem::path& path);
  ZipMembers(const ZipMembers&) = delete;
  ZipMembers& operator=(const ZipMembers&) = delete;
  ~ZipMembers();

  // Steps to the next regular file; false at the end. Links and encrypted members are left out. Errors: kBadData.
  bool Next();
  const std::string& name() const { return name_; }
  int64_t bytes() const { return bytes_; }
  // The next part of the present file, as a whole or in parts to its end. Requires: Next() returned true; so much is
  // left of it. Errors: kBadData when it is damaged, packed in an unknown way, or not as long as it says.
  std::string ReadPart(int64_t bytes);
  const LeftOut& left_out() const { return left_out_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string name_;
  int64_t bytes_ = 0;
  LeftOut left_out_;
};

}  // namespace moka
