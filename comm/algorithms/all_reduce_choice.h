// An all-reduce algorithm with its arrangement, by the names users give: "ring", "hierarchical:16" (groups of 16
// ranks), "double_binary_tree:8x64" (groups of 8 ranks, 64 pieces), "torus:8x16x8" (dimensions, fastest first).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/algorithms/algorithm.h"

namespace moka {

struct AllReduceChoice {
  std::string name;  // reads back to this choice
  const AllReduceAlgorithm* algorithm = nullptr;
  Arrangement arrangement;
};

// Returns the row of that name. By default a group is a host's ranks, and dimensions are a host's ranks times hosts; a
// number behind the name says otherwise. Errors: kConfig for an unknown name, with the nearest; for numbers that are
// none or that the algorithm does not take; and with the algorithm's own words where it refuses.
AllReduceChoice ChoiceOfAllReduce(std::string_view name, int ranks, int ranks_per_host);

// The one for sums that do not depend on a measurement and have one order: "direct" on one host, else "two_level".
AllReduceChoice FixedAllReduce(int ranks, int ranks_per_host);

// Returns the choices that are worth measuring: every algorithm that does not refuse, with groups of a NUMA node and of
// one, two and four hosts, and with hosts in one dimension or two, after one of their NUMA nodes; what goes in pieces,
// with a host's groups and 4, 16 or 64 of them. ranks_per_node: of a NUMA node; 0: hosts are not told apart into nodes.
std::vector<AllReduceChoice> AllReduceChoices(int ranks, int ranks_per_host, int ranks_per_node = 0);

}  // namespace moka
