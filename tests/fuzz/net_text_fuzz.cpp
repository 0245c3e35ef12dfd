// Net text: read, upgraded, expanded, filtered; what it prints must read back as the same text.
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget NetTextFuzz() {
  return {"net_text", [](std::string_view text) {
            const NetParameter net = NetFromText(text, "net.prototxt");
            const std::string printed = NetToText(net);
            Require(NetToText(NetFromText(printed, "printed")) == printed, "printed nets read back");
            FilterNet(net, TRAIN);
          }};
}

}  // namespace moka
