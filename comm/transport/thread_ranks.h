// Ranks that are threads of this process.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "comm/transport/communicator.h"

namespace moka {

// A communicator for each of `ranks` ranks of this process, all on this host. Requires: ranks >= 1.
std::vector<std::unique_ptr<Communicator>> MakeThreadRanks(int ranks);

struct ThrownByRank {
  int rank = 0;
  std::exception_ptr thrown{};
};

// Calls body(rank) for every rank in a thread of its own and waits for all. Returns what was thrown, in order of time.
std::vector<ThrownByRank> ThrownByRanks(int ranks, const std::function<void(int)>& body);

// The same with each rank's communicator; what a body throws is told to the other ranks, whose waits end with it. If
// any has thrown, what is thrown again is the first in time that is no Error of kind kPeer, since those follow from
// what another rank did; the first of these where there is no other.
void RunRanks(std::vector<std::unique_ptr<Communicator>>& world, const std::function<void(Communicator&)>& body);

}  // namespace moka
