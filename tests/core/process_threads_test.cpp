// Affinity and time slice reach threads that were made before.
#include "core/threads/process_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/threads/cpus.h"

namespace moka {
namespace {

// Returns the time slice of the calling thread; 0 where the kernel does not say it.
int64_t SliceNs() {
  std::ifstream file("/proc/thread-self/sched");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("se.slice")) return std::stoll(line.substr(line.find(':') + 1));
  }
  return 0;
}

struct Seen {
  std::vector<int> cpus;
  int64_t slice_ns = 0;
};

// Returns what a thread sees that was made before `action`.
template <class Action>
Seen SeenBeside(Action&& action) {
  std::atomic<bool> is_over = false;
  Seen seen;
  std::thread beside([&] {
    is_over.wait(false);
    seen = {.cpus = AffinityOf(0), .slice_ns = SliceNs()};
  });
  action();
  is_over = true;
  is_over.notify_one();
  beside.join();
  return seen;
}

TEST(ProcessThreadsTest, AllThreadsMoveAndComeBack) {
  const std::vector<int> all = AffinityOf(0);
  const std::vector<int> one(1, all.back());
  EXPECT_EQ(SeenBeside([&] { RunProcessOn(one); }).cpus, one);
  EXPECT_EQ(AffinityOf(0), one);
  EXPECT_EQ(SeenBeside([] {}).cpus, one) << "a new thread inherits";
  EXPECT_EQ(SeenBeside([&] { RunProcessOn(all); }).cpus, all);
  EXPECT_EQ(AffinityOf(0), all);
}

TEST(ProcessThreadsTest, AllThreadsHaveTheSlice) {
  const int64_t before_ns = SliceNs();
  SliceProcess(100'000);
  if (SliceNs() == before_ns) GTEST_SKIP() << "this kernel has no slices of a thread's own";
  EXPECT_EQ(SliceNs(), 100'000);
  EXPECT_EQ(SeenBeside([] { SliceProcess(5'000'000); }).slice_ns, 5'000'000);
  SliceProcess(0);
  EXPECT_EQ(SliceNs(), before_ns);
}

}  // namespace
}  // namespace moka
