// Any bytes as an LMDB file: the walk may only return ranges inside the file.
#include <sys/mman.h>
#include <unistd.h>

#include "data/records/lmdb_walk.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("lmdb", 0);
  return moka::RunOneInput(data, size, [](std::string_view bytes) {
    const auto length = static_cast<int64_t>(bytes.size());
    if (ftruncate(file, length) != 0 || pwrite(file, bytes.data(), bytes.size(), 0) != length) return;
    for (const moka::LmdbEntry& entry : moka::WalkLmdb(file, length, "fuzz")) {
      const bool inside = entry.key_offset >= 0 && entry.key_offset + entry.key_bytes <= length &&
                          entry.value_offset >= 0 && entry.value_offset + entry.value_bytes <= length;
      if (!inside) std::abort();
    }
  });
}
