// Net text: read, upgraded, expanded, filtered; what it prints must read back as the same text.
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    const moka::NetParameter net = moka::NetFromText(text, "net.prototxt");
    const std::string printed = moka::NetToText(net);
    moka::Require(moka::NetToText(moka::NetFromText(printed, "printed")) == printed, "printed nets read back");
    moka::FilterNet(net, moka::TRAIN);
  });
}
