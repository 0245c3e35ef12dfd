// A machine on which threads of the test's own never sleep, and how MindLoad sees it.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/threads/cpus.h"
#include "core/threads/team_wait.h"

namespace moka {

// Calls MindLoad while working, for so long or until IsBusy() is as wanted.
inline bool BecomesBusy(bool wanted, std::chrono::seconds limit) {
  const auto begin = std::chrono::steady_clock::now();
  while (IsBusy() != wanted && std::chrono::steady_clock::now() - begin < limit) MindLoad();
  return IsBusy() == wanted;
}

// Threads of this process that never sleep, two for each CPU.
class BusyThreads {
 public:
  BusyThreads() {
    for (size_t i = 0; i < 2 * AffinityOf(0).size(); ++i) {
      threads_.emplace_back([this] {
        while (!is_over_) {
        }
      });
    }
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;
  ~BusyThreads() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace moka
