// Reads flags and environment, lets core/threads/thread_plan.h decide, and starts the program again if threads are to
// be pinned.
#include "tools/train/team_setup.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/cpu_list.h"
#include "core/threads/cpus.h"
#include "core/threads/parallel.h"
#include "core/threads/team.h"
#include "core/threads/team_wait.h"

namespace moka {
namespace {

constexpr int kMostThreads = 4096;

// Returns the value of OMP_NUM_THREADS: numbers (a list has one for each level of nesting), or words that are none,
// which OpenMP passes over. None where it is not set.
std::optional<std::string> ThreadsOfEnvironment() {
  const char* value = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): nobody writes the environment
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

bool AreThreads(std::string_view said) {
  return std::ranges::all_of(Split(said, ','), [](const std::string& part) {
    const std::string_view word = Trim(part);
    const bool are_digits = !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
    return are_digits && word.find_first_not_of('0') != std::string_view::npos;
  });
}

// OpenMP itself keeps the last bits of a number that is too large. Requires: its words are numbers.
void CheckThreads(const std::string& said) {
  const std::vector<std::string> parts = Split(said, ',');
  const std::string_view first = Trim(parts.front());
  int threads = 0;
  const auto [end, code] = std::from_chars(first.data(), first.data() + first.size(), threads);
  if (code == std::errc() && threads <= kMostThreads) return;
  throw Error(ErrorKind::kUsage, {},
              StrCat("OMP_NUM_THREADS is \"", Printable(said), "\", expected from 1 to ", kMostThreads, " threads"),
              "unset it for a thread a core, or give --threads N");
}

ThreadWish WishOf(const Arguments& arguments) {
  ThreadWish wish;
  if (!arguments.Has("threads")) {
    const std::optional<std::string> said = ThreadsOfEnvironment();
    if (said && AreThreads(*said)) {
      CheckThreads(*said);
      wish.threads = ThreadCount();  // as OpenMP has read it
    }
  }
  if (arguments.Has("threads")) wish.threads = static_cast<int>(arguments.Int("threads", 1, 1, kMostThreads));
  const std::string pin = arguments.Get("pin", "none");
  if (pin == "none") return wish;
  wish.pin = ThreadWish::Pin::kCores;
  if (pin != "cores") {
    wish.pin = ThreadWish::Pin::kCpus;
    const auto cpus = ParseCpuList(pin);
    if (!cpus) {
      throw Error(ErrorKind::kUsage, {},
                  StrCat("--pin wants none, cores or CPUs such as 0-3,8, found \"", Printable(pin), "\""),
                  DidYouMean(pin, {"none", "cores"}));
    }
    wish.cpus = *cpus;
  }
  if (IsPlacedByUser()) {
    throw Error(ErrorKind::kUsage, {}, "--pin and the environment both say where threads run",
                "leave out --pin, or unset OMP_PLACES, OMP_PROC_BIND, GOMP_CPU_AFFINITY and KMP_AFFINITY");
  }
  return wish;
}

}  // namespace

void SetUpTeam(const Arguments& arguments, bool computes) {
  const ThreadPlan plan = PlanThreads(ProcessCpus(), WishOf(arguments));
  if (!IsRestarted()) {
    const bool may_wait = computes && plan.threads > 1 && !IsWaitSetByUser();
    const TeamWish wish{.places = plan.places, .spins = may_wait ? SpinsFor(kSpinMicros) : 0};
    if (!wish.places.empty() || wish.spins > 0) Restart(wish);
  }
  if (!plan.places.empty() && !IsPinned()) {
    LogWarning("--pin: the system does not let this program start again, so its threads are not pinned");
  }
  for (const std::string& warning : plan.warnings) LogWarning(warning);
  if (IsPinned() && !HasPlaces()) LogWarning("--pin: this OpenMP runtime does not pin threads here");
  SetThreadCount(plan.threads);
  const std::optional<std::string> said = ThreadsOfEnvironment();
  if (said && !AreThreads(*said) && !arguments.Has("threads")) {
    LogWarning(StrCat("OMP_NUM_THREADS is \"", Printable(*said), "\", which is no number of threads: ", TeamText(),
                      plan.threads == 1 ? " is taken" : " are taken"));
  }
}

bool HasThreadsInEnvironment() {
  const std::optional<std::string> said = ThreadsOfEnvironment();
  return said && AreThreads(*said);
}

int SetUpTeams(const Arguments& arguments, int ranks) {
  if (HasPlaces()) {
    throw Error(ErrorKind::kUsage, {}, StrCat(ranks, " ranks of one process cannot have their threads pinned"),
                IsPinned() ? "leave out --pin, or start the ranks as processes: mpirun -np N moka train ... --pin cores"
                           : "unset OMP_PLACES, OMP_PROC_BIND, GOMP_CPU_AFFINITY and KMP_AFFINITY");
  }
  SetRanksHere(ranks);
  return ThreadsOfRank(arguments, ranks);
}

int ThreadsOfRank(const Arguments& arguments, int ranks) {
  const ThreadWish wish = WishOf(arguments);
  return wish.threads > 0 ? wish.threads : std::max(1, ThreadCount() / ranks);
}

std::string TeamText() {
  std::string text = StrCat(ThreadCount(), ThreadCount() == 1 ? " thread" : " threads");
  if (!HasPlaces()) return text;
  std::vector<std::string> cpus;
  for (const std::vector<int>& each : TeamCpus()) cpus.push_back(CpuListText(each));
  return StrCat(text, cpus.size() == 1 ? " pinned to CPU " : " pinned to CPUs ", Join(cpus, " "));
}

}  // namespace moka
