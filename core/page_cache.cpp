// The file is mapped a stretch at a time to ask for its pages; a mapping that nobody reads brings none into memory.
#include "core/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/open_file.h"
#include "core/system_reason.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kStretchBytes = int64_t{1} << 30;

[[noreturn]] void Fail(const std::filesystem::path& path, std::string_view what, const std::string& reason) {
  throw Error(ErrorKind::kIo, StrCat(path.string(), ": ", what, ": ", reason));
}

// Returns the bytes of pages in memory from `begin` on.
int64_t InMemory(const OpenFile& file, int64_t begin, int64_t bytes, const std::filesystem::path& path) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  void* map = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_SHARED, file.fd(), begin);
  if (map == MAP_FAILED) Fail(path, "its pages cannot be counted", SystemReason());
  std::vector<unsigned char> pages(static_cast<size_t>((bytes + page - 1) / page));
  const int failed = mincore(map, static_cast<size_t>(bytes), pages.data());
  const std::string reason = failed != 0 ? SystemReason() : std::string();
  munmap(map, static_cast<size_t>(bytes));
  if (failed != 0) Fail(path, "its pages cannot be counted", reason);
  const auto is_there = [](unsigned char state) { return (state & 1U) != 0; };
  return std::min(bytes, page * std::ranges::count_if(pages, is_there));
}

}  // namespace

DroppedPages DropPages(const std::filesystem::path& path) {
  const OpenFile file = OpenFile::ForReading(path);
  (void)fdatasync(file.fd());  // where it fails, pages stay, which is told
  if (const int code = posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED); code != 0)
    Fail(path, "its pages cannot be dropped", SystemReason(code));
  DroppedPages dropped{.bytes = file.bytes(), .left_bytes = 0};
  for (int64_t begin = 0; begin < file.bytes(); begin += kStretchBytes) {
    dropped.left_bytes += InMemory(file, begin, std::min(kStretchBytes, file.bytes() - begin), path);
  }
  return dropped;
}

}  // namespace moka
