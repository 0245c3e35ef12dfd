// The parts of a set (train, val, test) by what their folders are called.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// A part of a set that has a source of its own, in the words of `moka data import`.
struct PartSource {
  std::string part;  // "train", "val", "test"
  std::string source;
};

// "train", "val" or "test" for a folder that is called so or as people call it otherwise ("Training", "valid", "dev");
// empty for other names.
std::string_view PartNamed(std::string_view folder);

// The folders in a folder that are called as parts, train, val and test in that order, of those that look like one;
// empty where there is no training part. Errors: kBadData for two of one part.
std::vector<PartSource> PartFolders(const std::filesystem::path& folder, bool (*is_part)(const std::filesystem::path&));

}  // namespace moka
