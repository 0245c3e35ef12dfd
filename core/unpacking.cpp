// The one rule for gzip, zip, NumPy's archives and HDF5, so that no reader has a limit of its own.
#include "core/unpacking.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/text.h"

namespace moka {

void CheckUnpackedBytes(std::string_view what, int64_t packed, int64_t unpacked, std::string_view hint) {
  constexpr int64_t kMostUnpacked = 100;
  constexpr int64_t kAnyUnpacked = int64_t{64} << 20;
  if (unpacked <= kAnyUnpacked || unpacked / std::max<int64_t>(1, packed) <= kMostUnpacked) return;
  throw Error(ErrorKind::kBadData, {},
              StrCat(what, ": ", BytesText(packed), " of it unpack to ", BytesText(unpacked), ", more than ",
                     kMostUnpacked, " times as much"),
              std::string(hint));
}

}  // namespace moka
