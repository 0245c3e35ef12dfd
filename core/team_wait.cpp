#include "core/team_wait.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/team.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWindow(100);
// The part of a window that the thread stood in the run queue. Threads of its own that read input take some hundredths;
// a program that wants the core takes half.
constexpr double kBusyShare = 0.15;
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

// Nanoseconds that the calling thread has wanted to run and stood in the queue, as the kernel counts them; none where
// it does not.
std::optional<int64_t> QueuedNanoseconds() {
  const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::array<char, 96> text{};  // "RUN QUEUED SLICES"
  const ssize_t bytes = read(fd, text.data(), text.size() - 1);
  close(fd);
  if (bytes <= 0) return std::nullopt;
  const std::string_view line(text.data(), static_cast<size_t>(bytes));
  const size_t begin = line.find(' ') + 1;
  int64_t queued = 0;
  const auto parsed = std::from_chars(line.data() + begin, line.data() + line.size(), queued);
  return begin > 0 && parsed.ec == std::errc() ? std::optional(queued) : std::nullopt;
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
  int64_t queued_ns = 0;
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
  const std::optional<int64_t> queued_ns = QueuedNanoseconds();
  if (!queued_ns) return;
  const bool is_first = look.at == Clock::time_point{};
  const auto lost_ns = static_cast<double>(*queued_ns - look.queued_ns);
  const double share = lost_ns / std::chrono::duration<double, std::nano>(passed).count();
  look = {.at = now, .queued_ns = *queued_ns};
  LoadState& state = Load();
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  if (is_first || !lock) return;
  if (share >= kBusyShare) {
    BecomeBusy(state);
  } else {
    BecomeCalmer(state);
  }
}

bool IsBusy() { return Load().is_busy; }

std::string WaitText() {
  if (OwnSpins() > 0) return fmt::format("spins {:.0f} us, then sleeps", kSpinMicros);
  return IsWaitSetByUser() ? "waits as the environment says" : "waits as the OpenMP runtime does by default";
}

}  // namespace moka
