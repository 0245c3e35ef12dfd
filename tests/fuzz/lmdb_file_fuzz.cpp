// Any bytes as an LMDB file: the walk may only return ranges inside the file.
#include <sys/mman.h>
#include <unistd.h>

#include "data/records/lmdb_walk.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget LmdbFileFuzz() {
  return {"lmdb_file", [](std::string_view bytes) {
            static const int file = memfd_create("lmdb", 0);
            const auto length = static_cast<int64_t>(bytes.size());
            if (ftruncate(file, length) != 0 || pwrite(file, bytes.data(), bytes.size(), 0) != length) return;
            for (const LmdbEntry& entry : WalkLmdb(file, length, "fuzz")) {
              const bool inside = entry.key_offset >= 0 && entry.key_offset + entry.key_bytes <= length &&
                                  entry.value_offset >= 0 && entry.value_offset + entry.value_bytes <= length;
              if (!inside) std::abort();
            }
          }};
}

}  // namespace moka
