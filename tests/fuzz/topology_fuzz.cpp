// The files that the simulator reads: a machine's topology, or, with a tab in it, a net's profile.
#include "comm/simulate/model_profile.h"
#include "comm/simulate/topology.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    if (text.find('\t') != std::string_view::npos) {
      const moka::ModelProfile profile = moka::ProfileOfText(text, "profile.tsv");
      moka::FusionInputOf(profile, 4);
      return;
    }
    const moka::Topology topology = moka::TopologyOfText(text, "topology.txt");
    moka::Require(topology.devices_per_node > 0 && !topology.devices.empty(), "a topology has devices");
  });
}
