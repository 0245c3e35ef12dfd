// Zip archives as importers read them: member after member, and as a tree of files.
#include <algorithm>

#include "data/files/zip_members.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/read_tree.h"

namespace moka {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 24;  // that are read of a member
constexpr int kMostMembers = 64;

void ReadMembers(const std::filesystem::path& archive) {
  ZipMembers zip(archive);
  for (int members = 0; members < kMostMembers && zip.Next(); ++members) {
    const int64_t half = std::min(zip.bytes(), kMostBytes) / 2;
    if (std::ssize(zip.ReadPart(half)) != half) std::abort();
  }
}

}  // namespace

FuzzTarget ZipFuzz() {
  return {"zip", [](std::string_view bytes) {
            static InputFile file("set.zip");
            file.Write(bytes);
            bytes.size() % 2 == 0 ? ReadMembers(file.path()) : ReadTree(file.path(), kMostBytes);
          }};
}

}  // namespace moka
