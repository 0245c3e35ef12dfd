// Binary nets (.caffemodel): read and upgraded.
#include "proto/nets/net_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget NetBinaryFuzz() {
  return {"net_binary", [](std::string_view bytes) { NetFromBinary(bytes, "net.caffemodel"); }};
}

}  // namespace moka
