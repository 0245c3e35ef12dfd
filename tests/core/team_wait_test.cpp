// Crowding by real threads on the machine's own CPUs is noticed.
#include "core/threads/team_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "core/threads/parallel.h"
#include "tests/core/busy_machine.h"

namespace moka {
namespace {

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
  {
    const BusyThreads threads;
    EXPECT_TRUE(BecomesBusy(true, std::chrono::seconds(20)));
  }
  // The team computes as before meanwhile.
  std::atomic<int64_t> sum = 0;
  ParallelFor(1000, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  EXPECT_EQ(sum, 499500);
}

}  // namespace
}  // namespace moka
