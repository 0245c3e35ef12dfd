// Whether the team's threads sleep beside threads of this process and beside other programs. A program of its own that
// runs alone, as another test would be another program.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "core/threads/cpus.h"
#include "core/threads/run_queue.h"
#include "core/threads/team_wait.h"
#include "tests/core/busy_machine.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;

// Programs that never sleep, two for each CPU.
class BusyPrograms {
 public:
  BusyPrograms() {
    for (size_t i = 0; i < 2 * AffinityOf(0).size(); ++i) {
      const pid_t child = fork();
      if (child == 0) {
        const std::atomic<bool> is_over = false;
        while (!is_over) {
        }
        _exit(0);
      }
      children_.push_back(child);
    }
  }
  BusyPrograms(const BusyPrograms&) = delete;
  BusyPrograms& operator=(const BusyPrograms&) = delete;
  ~BusyPrograms() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

// CPUs' worth of time that other programs of this machine took while this object lived.
class OthersWatch {
 public:
  double Cpus() const { return (Others() - at_begin_) / std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  // Seconds, from some point on.
  double Others() const {
    timespec own{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    const double passed = std::chrono::duration<double>(Clock::now() - begin_).count();
    return passed * static_cast<double>(cpus_.size()) - IdleSeconds(cpus_).value_or(0) -
           static_cast<double>(own.tv_sec) - 1e-9 * static_cast<double>(own.tv_nsec);
  }

  std::vector<int> cpus_ = AffinityOf(0);
  Clock::time_point begin_ = Clock::now();
  double at_begin_ = Others();
};

TEST(TeamLoadTest, AServersOwnThreadsAreNoReasonToSleep) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) unsetenv(name);
  {
    const BusyThreads threads;
    EXPECT_TRUE(BecomesBusy(true, std::chrono::seconds(20))) << "of a program that is no server they are one";
    MindOthersAlone();
    EXPECT_TRUE(BecomesBusy(false, std::chrono::seconds(20)));
    const OthersWatch others;
    const bool becomes_busy = BecomesBusy(true, std::chrono::seconds(1));
    if (others.Cpus() > 0.3) GTEST_SKIP() << "other programs want this machine";
    EXPECT_FALSE(becomes_busy);
  }
  const BusyPrograms programs;
  EXPECT_TRUE(BecomesBusy(true, std::chrono::seconds(20)));
}

}  // namespace
}  // namespace moka
