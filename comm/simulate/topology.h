// A simulated machine: nodes of equal devices, a link of each device inside its node, and a network card a node that
// its devices share. Constants come from a small text file, so published machines are files and not code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Each direction by itself.
struct SimulatedLink {
  double alpha_s = 0;      // from the first byte sent to the first received
  double bytes_per_s = 1;  // of payload
};

struct Topology {
  std::string name;
  int devices_per_node = 1;
  SimulatedLink inside;      // of one device
  SimulatedLink network;     // of one node
  double add_s = 0;          // to add one element to a sum
  double call_s = 0;         // start-up of an all-reduce, whatever its size
  std::vector<int> devices;  // numbers of devices to simulate, ascending
};

// A line a key and its value; "#" begins a comment. Keys: name, devices_per_node, inside_alpha_us, inside_gb_s,
// network_alpha_us, network_gb_s (of the wire, 10^9 bytes), network_efficiency (the part of it that payload gets),
// add_ns, call_us, devices (a list). All but add_ns, call_us and network_efficiency (1) must be there.
// Errors: kConfig with file and line; unknown keys with the nearest one.
Topology TopologyOfText(std::string_view text, const std::string& file);

}  // namespace moka
