// The sources that `moka data import` takes beside folders: a row for each kind of source
// ("coco:ANNOTATIONS,PICTURES"), a function `SourceKind NAME()` in the file of its importer, which the build finds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/import/import_options.h"

namespace moka {

// The parts of a source's text as they were written.
class SourceParts {
 public:
  explicit SourceParts(std::vector<std::string> parts) : parts_(std::move(parts)) {}
  size_t size() const { return parts_.size(); }
  // Empty where there are fewer.
  std::string operator[](size_t i) const { return i < parts_.size() ? parts_[i] : std::string(); }
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }

 private:
  std::vector<std::string> parts_;
};

struct SourceKind {
  static constexpr size_t kAny = 1000;

  std::string kind;
  std::string parts;  // as they are written
  std::string makes;  // a few words for help
  size_t least = 1;   // parts
  size_t most = 1;
  ImportReport (*import)(const SourceParts& parts, const std::filesystem::path& out,
                         const ImportOptions& options) = nullptr;
  char separator = ',';
  bool has_class_folders = false;  // whose numbers --classes may give
};

// The rows of this build in no order that matters (tools/cmake/moka_rows.cmake).
std::vector<SourceKind> SourceKindRows();

}  // namespace moka
