// The files that the simulator reads: a machine's topology, or, with a tab in it, a net's profile.
#include "comm/simulate/model_profile.h"
#include "comm/simulate/topology.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget TopologyFuzz() {
  return {"topology", [](std::string_view text) {
            if (text.find('\t') != std::string_view::npos) {
              const ModelProfile profile = ProfileOfText(text, "profile.tsv");
              FusionInputOf(profile, 4);
              return;
            }
            const Topology topology = TopologyOfText(text, "topology.txt");
            Require(topology.devices_per_node > 0 && !topology.devices.empty(), "a topology has devices");
          }};
}

}  // namespace moka
