#include "comm/thread_ranks.h"

#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "comm/mpi_world.h"
#include "comm/region_transport.h"
#include "core/error.h"

namespace moka {
namespace {

bool IsOfPeer(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kPeer;
  } catch (...) {
    return false;
  }
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadRanks(int ranks) {
  const std::vector<std::string> hosts(static_cast<size_t>(ranks), HostName());
  std::vector<std::unique_ptr<Communicator>> world;
  for (std::unique_ptr<Transport>& transport : MakeThreadWorld(ranks))
    world.push_back(std::make_unique<Communicator>(std::move(transport), hosts));
  return world;
}

void RunRanks(int ranks, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::exception_ptr first_own;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          const std::exception_ptr thrown = std::current_exception();
          const bool is_own = !IsOfPeer(thrown);
          const std::lock_guard lock(mutex);
          if (!first) first = thrown;
          if (is_own && !first_own) first_own = thrown;
        }
      });
    }
  }
  if (first_own) std::rethrow_exception(first_own);
  if (first) std::rethrow_exception(first);
}

void RunRanks(std::vector<std::unique_ptr<Communicator>>& world, const std::function<void(Communicator&)>& body) {
  RunRanks(static_cast<int>(world.size()), [&](int rank) {
    Communicator& own = *world[static_cast<size_t>(rank)];
    try {
      body(own);
    } catch (const std::exception& error) {
      own.Fail(error.what());
      throw;
    } catch (...) {
      own.Fail("it ended with an exception of an unknown kind");
      throw;
    }
  });
}

}  // namespace moka
