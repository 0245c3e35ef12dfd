// Reads an archive as importers do that look for files by their names.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "data/files/file_tree.h"

namespace moka {

// Members of more than `most_bytes` are not read: the fuzzer's own limit of memory is near.
inline void ReadTree(const std::filesystem::path& archive, int64_t most_bytes) {
  int members = 0;
  const FileTree tree(archive, [&] {
    constexpr int kMostMembers = 64;
    if (++members > kMostMembers) throw Error(ErrorKind::kBadData, "more members than are looked at here");
  });
  for (const std::string& name : tree.FilesIn("")) {
    if (!tree.Has(name)) std::abort();
    if (tree.BytesOf(name) <= most_bytes) tree.Read(name);
  }
}

}  // namespace moka
