// Measures in windows how long this thread stood in the run queue, and sets how the team waits accordingly: spinning on
// an idle machine, sleeping on a shared one. An idle pool of threads switches libgomp to its short spins, which cannot
// be asked for after main() has begun.
#include "core/threads/team_wait.h"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/log.h"
#include "core/threads/cpus.h"
#include "core/threads/pause.h"
#include "core/threads/process_threads.h"
#include "core/threads/run_queue.h"
#include "core/threads/team.h"
#include "core/threads/team_gathering.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWindow(100);
// The part of a window that the thread stood in the run queue. Threads of its own that read input take some hundredths;
// a program that wants the core takes half.
constexpr double kBusyShare = 0.15;
// Windows in a row, before the runtime spins less: work of the system's own (it looks through memory for pages to give
// up, say) takes tens of milliseconds of a core now and then, for which sleeping would cost a tenth of the time.
constexpr int kBusyWindows = 3;
constexpr int kCalmWindows = 20;  // two seconds, before the runtime spins again as it did
constexpr int kSetBack = 5;       // calm windows that a busy one outweighs
// CPUs' worth of time that other programs take, from which on they are what this process waits for.
constexpr double kOthersCpus = 0.4;
// The shortest slice there is: a thread that was waited for begins sooner.
constexpr uint64_t kShortSliceNs = 100'000;
constexpr int kMostIdleThreads = 64;  // a team so much smaller than the machine is not crowded out

const char* WaitVariable(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets variables once there are threads
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

// A team that may be gathered, while other programs want the CPUs.
struct TeamView {
  explicit TeamView(std::vector<int> all_cpus)
      : cpus(std::move(all_cpus)),
        kept((cpus.size() + 1) / 2),
        gathering(static_cast<double>(kept) / static_cast<double>(cpus.size())),
        watched(cpus) {}

  std::vector<int> cpus;
  size_t kept;
  TeamGathering gathering;
  bool is_gathered = false;
  std::vector<int> watched;  // the CPUs that it is not on; all where it is on all
  std::optional<double> idle_s;
};

struct LoadState {
  std::mutex mutex;
  std::unique_ptr<IdlePool> idle;  // while others want the CPUs
  std::unique_ptr<TeamView> team;  // likewise, where it may be gathered
  int busy_windows = 0;
  int calm_windows = 0;
  bool is_told = false;
  bool minds_others_alone = false;
  std::optional<double> others_s;  // of CPU time that other programs had until the last window that was busy
  Clock::time_point others_at{};
};

LoadState& Load() {
  static LoadState state;
  return state;
}

// Seconds of CPU time on this process's CPUs that others had, from some point on.
std::optional<double> OthersSeconds() {
  const CpuFacts& facts = ProcessCpus();
  if (facts.quota > 0) return std::nullopt;
  std::vector<int> cpus;
  for (const Cpu& cpu : facts.allowed) cpus.push_back(cpu.id);
  const std::optional<double> idle_s = IdleSeconds(cpus);
  if (!idle_s) return std::nullopt;
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  const double all_s =
      std::chrono::duration<double>(Clock::now().time_since_epoch()).count() * static_cast<double>(cpus.size());
  return all_s - *idle_s - static_cast<double>(own.tv_sec) - 1e-9 * static_cast<double>(own.tv_nsec);
}

// Whether it is other programs that a thread waited for since the last busy window. The first one tells nothing.
bool AreOthersBusy(LoadState& state) {
  if (!state.minds_others_alone) return true;
  const Clock::time_point now = Clock::now();
  const double passed_s = std::chrono::duration<double>(now - std::exchange(state.others_at, now)).count();
  const std::optional<double> others_s = OthersSeconds();
  const std::optional<double> before_s = std::exchange(state.others_s, others_s);
  if (!others_s) return true;
  return before_s && *others_s - *before_s >= kOthersCpus * passed_s;
}

// The values that the calling thread saw at its last look.
struct ThreadLook {
  Clock::time_point at{};
  int64_t queued_ns = 0;
  double run_s = 0;
};

double ThreadRunSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A team that is as large as the machine, alone in a process of this program and bound to nothing.
std::unique_ptr<TeamView> TeamToGather() {
  std::vector<int> cpus = AffinityOf(0);
  const bool may = IsRestarted() && !HasPlaces() && cpus.size() > 1 && std::ssize(cpus) == omp_get_max_threads() &&
                   CpuShare() == std::ssize(cpus);
  return may ? std::make_unique<TeamView>(std::move(cpus)) : nullptr;
}

void Gather(TeamView& team) {
  // The first of those it keeps is the one on which the calling thread is now.
  std::vector<int> kept = team.cpus;
  const auto now = std::ranges::find(kept, sched_getcpu());
  if (now != kept.end()) std::rotate(kept.begin(), now, kept.end());
  team.watched.assign(kept.begin() + static_cast<ptrdiff_t>(team.kept), kept.end());
  kept.resize(team.kept);
  std::ranges::sort(kept);
  RunProcessOn(kept);
}

void Spread(TeamView& team) {
  team.watched = team.cpus;
  RunProcessOn(team.cpus);
}

// Gathers the team or lets it spread, by what was seen in the window that ends now.
void MindCpus(TeamView& team, double seconds, double run_seconds) {
  const std::optional<double> before_s = std::exchange(team.idle_s, IdleSeconds(team.watched));
  if (!before_s || !team.idle_s) return;  // the first window, or a system that does not say
  const double idle_share = (*team.idle_s - *before_s) / seconds / static_cast<double>(team.watched.size());
  const bool gathers =
      team.gathering.Look({.seconds = seconds, .run_share = run_seconds / seconds, .idle_share = idle_share});
  if (gathers == std::exchange(team.is_gathered, gathers)) return;
  if (gathers) {
    Gather(team);
  } else {
    Spread(team);
  }
  team.idle_s = IdleSeconds(team.watched);
}

// Whether the system gives so many threads now. OpenMP's runtime ends the program where it does not.
bool HasThreads(int wanted) {
  std::vector<std::thread> threads;
  bool has_all = true;
  try {
    while (std::ssize(threads) < wanted) threads.emplace_back([] {});
  } catch (const std::system_error&) {
    has_all = false;
  }
  for (std::thread& thread : threads) thread.join();
  return has_all;
}

void BecomeBusy(LoadState& state) {
  state.calm_windows = std::max(0, state.calm_windows - kSetBack);
  if (state.idle || ++state.busy_windows < kBusyWindows) return;
  state.calm_windows = 0;
  const int missing = std::max(omp_get_num_procs() - omp_get_max_threads() + 1, 1);
  if (missing > kMostIdleThreads || !HasThreads(missing + 1)) return;
  state.team = TeamToGather();
  state.idle = std::make_unique<IdlePool>(missing);
  if (IsRestarted()) SliceProcess(kShortSliceNs);
  if (!std::exchange(state.is_told, true)) LogInfo("other programs want the CPUs: threads wait for each other asleep");
}

void BecomeCalmer(LoadState& state) {
  state.busy_windows = 0;
  const bool is_gathered = state.team && state.team->is_gathered;
  if (!state.idle || is_gathered || ++state.calm_windows < kCalmWindows) return;
  state.idle.reset();
  state.team.reset();
  if (IsRestarted()) SliceProcess(0);
}

}  // namespace

int64_t SpinsFor(double micros) {
  constexpr int kPauses = 1000;
  double best_micros = 1e9;
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point begin = Clock::now();
    for (int k = 0; k < kPauses; ++k) PauseCpu();
    best_micros = std::min(best_micros, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return std::clamp<int64_t>(static_cast<int64_t>(micros / best_micros * kPauses), 100, 300'000);
}

bool IsWaitSetByUser() {
  if (OwnSpins() > 0) return false;
  constexpr std::array kNames = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
  return std::ranges::any_of(kNames, [](const char* name) { return WaitVariable(name) != nullptr; });
}

void MindLoad() {
  thread_local ThreadLook look;
  const Clock::time_point now = Clock::now();
  const auto passed = now - look.at;
  if (passed < kWindow) return;
  const ThreadLook last = std::exchange(look, {.at = now, .queued_ns = look.queued_ns, .run_s = ThreadRunSeconds()});
  if (IsWaitSetByUser()) return;
  const std::optional<int64_t> queued_ns = ThreadQueuedNs();
  if (!queued_ns) return;
  look.queued_ns = *queued_ns;
  if (last.at == Clock::time_point{}) return;
  const auto lost_ns = static_cast<double>(*queued_ns - last.queued_ns);
  const double passed_s = std::chrono::duration<double>(passed).count();
  const double share = 1e-9 * lost_ns / passed_s;
  LoadState& state = Load();
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  if (!lock) return;
  if (share >= kBusyShare && AreOthersBusy(state)) {
    BecomeBusy(state);
  } else {
    BecomeCalmer(state);
  }
  if (state.team) MindCpus(*state.team, passed_s, look.run_s - last.run_s);
}

void MindOthersAlone() {
  LoadState& state = Load();
  const std::scoped_lock lock(state.mutex);
  state.minds_others_alone = true;
}

bool IsBusy() {
  LoadState& state = Load();
  const std::scoped_lock lock(state.mutex);
  return state.idle != nullptr;
}

std::string WaitText() {
  if (OwnSpins() > 0) return fmt::format("spins {:.0f} us, then sleeps", kSpinMicros);
  return IsWaitSetByUser() ? "waits as the environment says" : "waits as the OpenMP runtime does by default";
}

}  // namespace moka
