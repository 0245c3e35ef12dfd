// Crowding by real threads on the machine's own CPUs is noticed.
#include "core/threads/team_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/threads/cpus.h"
#include "core/threads/parallel.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;

// Calls MindLoad while working, for so long or until IsBusy() is as wanted.
bool BecomesBusy(bool wanted, std::chrono::seconds limit) {
  const Clock::time_point begin = Clock::now();
  while (IsBusy() != wanted && Clock::now() - begin < limit) MindLoad();
  return IsBusy() == wanted;
}

TEST(TeamWaitTest, SpinsGrowWithTheTime) {
  const int64_t few = SpinsFor(50);
  const int64_t many = SpinsFor(400);
  EXPECT_GE(few, 100);
  EXPECT_LE(many, 300'000);
  EXPECT_GT(many, 2 * few);
}

// Threads that never sleep, two for each CPU: the one that minds the load is descheduled again and again.
TEST(TeamWaitTest, ABusyMachineIsNoticed) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) unsetenv(name);
  std::atomic<bool> is_over = false;
  std::vector<std::thread> loops;
  for (int i = 0; i < 2 * static_cast<int>(AffinityOf(0).size()); ++i) {
    loops.emplace_back([&] {
      while (!is_over) {
      }
    });
  }
  const bool is_noticed = BecomesBusy(true, std::chrono::seconds(20));
  is_over = true;
  for (std::thread& loop : loops) loop.join();
  EXPECT_TRUE(is_noticed);
  // The team computes as before meanwhile.
  std::atomic<int64_t> sum = 0;
  ParallelFor(1000, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  EXPECT_EQ(sum, 499500);
}

}  // namespace
}  // namespace moka
