// Ranks as threads of a test.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "comm/transport/region_transport.h"
#include "comm/transport/thread_ranks.h"

namespace moka {

// body(transport) for each rank in a thread of its own; the exception of the first rank that threw one is thrown again.
inline void RunRanks(std::vector<std::unique_ptr<Transport>>& world, const std::function<void(Transport&)>& body) {
  const std::vector<ThrownByRank> all =
      ThrownByRanks(static_cast<int>(world.size()), [&](int rank) { body(*world[static_cast<size_t>(rank)]); });
  const auto first = std::ranges::min_element(all, {}, &ThrownByRank::rank);
  if (first != all.end()) std::rethrow_exception(first->thrown);
}

inline void RunRanks(int ranks, const std::function<void(Transport&)>& body) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(ranks);
  RunRanks(world, body);
}

}  // namespace moka
