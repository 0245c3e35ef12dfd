// Runs a function on one thread a rank and chooses which error to throw: that of the rank that failed by itself, not
// those of the ranks that it took along.
#include "comm/transport/thread_ranks.h"

#include <exception>
#include <future>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "comm/transport/mpi_world.h"
#include "comm/transport/region_transport.h"
#include "core/error.h"
#include "core/threads/process_threads.h"

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

std::vector<ThrownByRank> ThrownByRanks(int ranks, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::vector<ThrownByRank> all;
  {
    // A rank waits for all others, so none begins before there are threads for all.
    std::promise<bool> are_all_there;
    const std::shared_future<bool> may_begin = are_all_there.get_future().share();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto run = [&, rank, may_begin] {
        if (!may_begin.get()) return;
        try {
          body(rank);
        } catch (...) {
          const std::lock_guard lock(mutex);
          all.push_back({rank, std::current_exception()});
        }
      };
      try {
        threads.emplace_back(run);
      } catch (const std::system_error& error) {  // those that are there wait, and are joined
        are_all_there.set_value(false);
        throw NoThread(rank, ranks, error);
      } catch (...) {
        are_all_there.set_value(false);
        throw;
      }
    }
    are_all_there.set_value(true);
  }
  return all;
}

void RunRanks(std::vector<std::unique_ptr<Communicator>>& world, const std::function<void(Communicator&)>& body) {
  const std::vector<ThrownByRank> all = ThrownByRanks(static_cast<int>(world.size()), [&](int rank) {
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
  for (const ThrownByRank& one : all) {
    if (!IsOfPeer(one.thrown)) std::rethrow_exception(one.thrown);
  }
  if (!all.empty()) std::rethrow_exception(all.front().thrown);
}

}  // namespace moka
