// Chooses the network over which ranks on several hosts talk: one that every host is in, the fastest of those. Without
// a choice MPI may try bridges of containers, which exist on every host and lead nowhere.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/host_facts.h"

namespace moka {

struct NetworkChoice {
  std::string network;                 // "10.0.0.0/24"; empty: one host, nothing leaves it, or there is none
  std::string why;                     // in words, or why there is none
  std::vector<std::string> addresses;  // of each host in that network
};

// `asked`: the network the user wants ("10.0.0.0/24"), or empty. Hosts with `missing` are left out. A network in which
// two hosts have one address is a bridge inside each host and never chosen.
NetworkChoice ChooseNetwork(const std::vector<HostFacts>& facts, const std::string& asked);

// "eth0 10.0.0.1/24, ib0 10.1.0.1/24 100 Gb/s": a host's interfaces in words, loopback left out.
std::string InterfacesText(const HostFacts& facts);

}  // namespace moka
