// Binary nets (.caffemodel): read and upgraded.
#include "proto/nets/net_file.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view bytes) { moka::NetFromBinary(bytes, "net.caffemodel"); });
}
