// Ranks as threads of a test.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/region_transport.h"

namespace moka {

// body(transport) for each rank in a thread of its own; the first exception of any rank is thrown again.
inline void RunRanks(std::vector<std::unique_ptr<Transport>>& world, const std::function<void(Transport&)>& body) {
  std::vector<std::exception_ptr> thrown(world.size());
  {
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < world.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          body(*world[r]);
        } catch (...) {
          thrown[r] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

inline void RunRanks(int ranks, const std::function<void(Transport&)>& body) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(ranks);
  RunRanks(world, body);
}

}  // namespace moka
