// Archives: v7, ustar, GNU and pax, plain or gzip-compressed. Checksums of headers are put right first, so that what
// they protect is read.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "data/files/packed_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/read_tree.h"

namespace moka {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kChecksumAt = 148;
constexpr size_t kChecksumBytes = 8;

// Returns the archive with right checksums in all blocks that begin as a header does: a name, then octal digits where
// the mode is.
std::string WithChecksums(std::string_view archive) {
  std::string mended(archive);
  for (size_t at = 0; at + kBlock <= mended.size(); at += kBlock) {
    char* const block = mended.data() + at;
    const bool is_header = block[0] != '\0' && block[100] >= '0' && block[100] <= '7';
    if (!is_header) continue;
    std::fill_n(block + kChecksumAt, kChecksumBytes, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>(block[i]);
    std::array<char, kChecksumBytes> digits{};
    std::snprintf(digits.data(), digits.size(), "%06o", sum);
    std::copy_n(digits.begin(), 7, block + kChecksumAt);
  }
  return mended;
}

// The bytes that archives may hold here in all: the fuzzer's own limit of memory is near.
constexpr int64_t kMostBytes = int64_t{1} << 26;

void ReadMembers(const std::filesystem::path& archive) {
  ArchiveReader tar(archive);
  int64_t bytes = 0;
  while (tar.Next()) {
    bytes += tar.bytes();
    if (bytes > kMostBytes) return;
    const auto wanted = static_cast<size_t>(tar.bytes());
    if (tar.Read().size() != wanted) std::abort();
  }
  tar.Warnings();
}

}  // namespace

FuzzTarget TarFuzz() {
  return {"tar", [](std::string_view bytes) {
            static InputFile file("set.tar");
            file.Write(WithChecksums(bytes));
            bytes.size() % 2 == 0 ? ReadMembers(file.path()) : ReadTree(file.path(), kMostBytes);
          }};
}

}  // namespace moka
