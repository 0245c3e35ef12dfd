// Facts of made-up hosts for the tests of what a launch makes of them.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/host_facts.h"

namespace moka {

// A sound host with two interfaces: eth0 in 10.0.0.0/24 and docker0, which is the same on every host.
inline HostFacts SoundHost(const std::string& name, int number) {
  HostFacts facts;
  facts.host = name;
  facts.build = R"({"moka":"0.1.0","oneDNN":"2.6.3","build":"00ff"})";
  facts.shm_bytes = int64_t{8} << 30;
  facts.shm_free_bytes = int64_t{4} << 30;
  facts.clock_error_s = 0.2;
  facts.cpus = 8;
  facts.interfaces = {{"lo", "127.0.0.1", 8, true, 0},
                      {"docker0", "172.17.0.1", 16, false, 0},
                      {"eth0", "10.0.0." + std::to_string(number), 24, false, 1000}};
  return facts;
}

inline std::vector<HostFacts> TwoSoundHosts() { return {SoundHost("a", 1), SoundHost("b", 2)}; }

}  // namespace moka
