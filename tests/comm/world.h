// Ranks as threads of a test.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/region_transport.h"
#include "comm/thread_ranks.h"

namespace moka {

// body(transport) for each rank in a thread of its own, as the other RunRanks.
inline void RunRanks(std::vector<std::unique_ptr<Transport>>& world, const std::function<void(Transport&)>& body) {
  RunRanks(static_cast<int>(world.size()), [&](int rank) { body(*world[static_cast<size_t>(rank)]); });
}

inline void RunRanks(int ranks, const std::function<void(Transport&)>& body) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(ranks);
  RunRanks(world, body);
}

}  // namespace moka
