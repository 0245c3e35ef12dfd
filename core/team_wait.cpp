#include "core/team_wait.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/team.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWindow(100);
// Times in a window that the thread loses its CPU to another while it wants to run. A thread alone on a core loses it
// to the kernel's own work about once a second; beside a program that wants the core, once each slice of some 4 ms.
constexpr int64_t kBusySwitches = 4;
constexpr int kCalmWindows = 20;      // two seconds, before the runtime spins again as it did
constexpr int kMostIdleThreads = 64;  // a team so much smaller than the machine is not crowded out

const char* WaitVariable(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets variables once there are threads
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t InvoluntarySwitches() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

// A pool of threads that do nothing, which makes the runtime's teams more than the CPUs, for as long as it lives. They
// spin for as long as any waiting thread when they are made, and sleep from then on.
class IdlePool {
 public:
  explicit IdlePool(int threads) : owner_([this, threads] { Hold(threads); }) {}
  IdlePool(const IdlePool&) = delete;
  IdlePool& operator=(const IdlePool&) = delete;
  ~IdlePool() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    owner_.join();
  }

 private:
  void Hold(int threads) {
    std::atomic<int> there = 0;
#pragma omp parallel num_threads(threads + 1)
    there.fetch_add(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    over_.wait(lock, [this] { return is_over_; });
  }

  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread owner_;  // last: it reads the others
};

struct LoadState {
  std::mutex mutex;
  std::unique_ptr<IdlePool> idle;
  int calm_windows = 0;
  std::atomic<bool> is_busy = false;
};

LoadState& Load() {
  static LoadState state;
  return state;
}

// What the calling thread saw last.
struct ThreadLook {
  Clock::time_point at{};
  int64_t switches = 0;
};

void BecomeBusy(LoadState& state) {
  state.calm_windows = 0;
  if (state.idle) return;
  const int missing = omp_get_num_procs() - omp_get_max_threads() + 1;
  if (missing > kMostIdleThreads) return;
  try {
    state.idle = std::make_unique<IdlePool>(std::max(missing, 1));
    state.is_busy = true;
  } catch (const std::system_error&) {
    // A system without a thread to spare goes on spinning.
  }
}

void BecomeCalmer(LoadState& state) {
  if (!state.idle || ++state.calm_windows < kCalmWindows) return;
  state.idle.reset();
  state.is_busy = false;
}

}  // namespace

int64_t SpinsFor(double micros) {
  constexpr int kPauses = 1000;
  double best_micros = 1e9;
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point begin = Clock::now();
    for (int k = 0; k < kPauses; ++k) Pause();
    best_micros = std::min(best_micros, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return std::clamp<int64_t>(static_cast<int64_t>(micros / best_micros * kPauses), 100, 300'000);
}

bool IsWaitSetByUser() {
  constexpr std::array kNames = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
  return std::ranges::any_of(kNames, [](const char* name) { return WaitVariable(name) != nullptr; });
}

void MindLoad() {
  thread_local ThreadLook look;
  const Clock::time_point now = Clock::now();
  const auto passed = now - look.at;
  if (passed < kWindow || IsWaitSetByUser()) return;
  const int64_t switches = InvoluntarySwitches();
  const int64_t lost = switches - look.switches;
  const bool is_first = look.at == Clock::time_point{};
  const int64_t windows = std::max<int64_t>(1, passed / kWindow);
  look = {.at = now, .switches = switches};
  LoadState& state = Load();
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  if (is_first || !lock) return;
  lost >= kBusySwitches* windows ? BecomeBusy(state) : BecomeCalmer(state);
}

bool IsBusy() { return Load().is_busy; }

std::string WaitText() {
  if (OwnSpins() > 0) return fmt::format("spins {:.0f} us, then sleeps", kSpinMicros);
  return IsWaitSetByUser() ? "waits as the environment says" : "waits as the OpenMP runtime does by default";
}

}  // namespace moka
