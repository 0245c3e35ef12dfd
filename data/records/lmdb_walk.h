// Reads the B-tree of an LMDB file with bounded pread calls and returns where every record lies. liblmdb trusts the
// pages it maps, so a damaged file makes it crash; this walk trusts nothing: each page is visited once, each offset is
// checked, and what is returned lies inside the file. Format: LMDB 0.9 (data version 1, 64-bit, native byte order).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moka {

// Bytes of one record, as offsets in the file.
struct LmdbEntry {
  int64_t key_offset = 0;
  int64_t value_offset = 0;
  uint32_t value_bytes = 0;
  uint16_t key_bytes = 0;
};

// All records in key order. Ensures: every range lies inside [0, file_bytes); keys ascend strictly.
// Errors: kBadData "PATH: damaged LMDB: REASON"; kIo when a read fails.
std::vector<LmdbEntry> WalkLmdb(int fd, int64_t file_bytes, const std::string& path);

}  // namespace moka
