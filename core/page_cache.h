// A file's pages in the system's cache: dropped, so that who reads it next reads the disk.
#pragma once

#include <cstdint>
#include <filesystem>

namespace moka {

struct DroppedPages {
  int64_t bytes = 0;       // of the file
  int64_t left_bytes = 0;  // of pages that are still in memory
};

// Writes what of the file is not on the disk yet, asks the system to drop its pages (posix_fadvise) and counts those
// that stayed (mincore): pages that a process has mapped or locked, and all of a file system that lives in memory. Of a
// file that this user may not write the system says that all of them stayed. Errors: kNoInput, kNotAllowed, kIo.
DroppedPages DropPages(const std::filesystem::path& path);

}  // namespace moka
