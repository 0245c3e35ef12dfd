// Places are set by starting this program again with OMP_PLACES in its environment, since libgomp reads it before
// main(). The second process takes the variables away from its children.
#include "core/threads/team.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/text.h"
#include "core/threads/cpus.h"
#include "core/threads/parallel.h"
#include "core/threads/process_threads.h"

namespace moka {
namespace {

// The environment variable by which a process that starts itself again says what it asks for: "PID pinned SPINS", so
// that programs it starts do not take themselves for it.
constexpr const char* kRestartedBy = "MOKA_RESTARTED_BY";
constexpr std::array kPlaceVariables = {"OMP_PLACES", "OMP_PROC_BIND"};
constexpr const char* kSpinVariable = "GOMP_SPINCOUNT";

const char* Variable(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables once there are threads
}

// Returns all CPUs that threads of the team may be bound to; empty where they are not bound.
std::vector<int> PlacedCpus() {
  std::vector<int> cpus;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    cpus.insert(cpus.end(), ids.begin(), ids.end());
  }
  std::ranges::sort(cpus);
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

struct Restarted {
  bool is_here = false;
  bool is_pinned = false;
  int64_t spins = 0;
};

void TakeWishAway(bool is_pinned, bool spins) {
  unsetenv(kRestartedBy);
  if (is_pinned) {
    for (const char* name : kPlaceVariables) unsetenv(name);
  }
  if (spins) unsetenv(kSpinVariable);
}

Restarted TakeRestarted() {
  const char* by = Variable(kRestartedBy);
  if (by == nullptr) return {};
  const std::vector<std::string> words = Split(by, ' ');
  if (words.size() != 3 || std::to_string(getpid()) != words[0]) return {};
  const Restarted restarted{
      .is_here = true, .is_pinned = words[1] == "1", .spins = std::strtoll(words[2].c_str(), nullptr, 10)};
  TakeWishAway(restarted.is_pinned, restarted.spins > 0);
  return restarted;
}

// Asked for the first time before the variables that brought it about are needed by anybody else.
const Restarted& ThisRestart() {
  static const Restarted restarted = TakeRestarted();
  return restarted;
}

std::atomic<int>& RanksHere() {
  static std::atomic<int> ranks = 1;
  return ranks;
}

std::vector<std::string> OwnArguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> words = Split(text, '\0');
  if (!words.empty()) words.pop_back();  // each word ends with a zero
  return words;
}

}  // namespace

const CpuFacts& ProcessCpus() {
  static const CpuFacts facts = [] {
    const std::vector<int> placed = PlacedCpus();
    return ReadCpuFacts(placed.empty() ? AffinityOf(getpid()) : placed, "/", Variable);
  }();
  return facts;
}

int CpuShare() {
  static const int cpus = PlanThreads(ProcessCpus(), {}).cpus;
  return std::max(1, cpus / RanksHere().load());
}

void SetRanksHere(int ranks) { RanksHere() = std::max(1, ranks); }

void KeepTeamAcrossForks() {
  // Only the team of the thread that forks matters: the child has no other thread.
  [[maybe_unused]] static const int kRegistered =
      pthread_atfork([] { omp_pause_resource_all(omp_pause_soft); }, nullptr, nullptr);
}

void LeaveTeamCpus() {
  const std::vector<int> cpus = PlacedCpus();
  if (!cpus.empty()) RunThreadOn(0, cpus);
}

bool HasPlaces() { return omp_get_num_places() > 0; }

bool IsPlacedByUser() {
  constexpr std::array kNames = {"OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  return !IsPinned() && std::ranges::any_of(kNames, [](const char* name) { return Variable(name) != nullptr; });
}

bool IsRestarted() { return ThisRestart().is_here; }
bool IsPinned() { return ThisRestart().is_pinned; }
int64_t OwnSpins() { return ThisRestart().spins; }

void Restart(const TeamWish& wish) {
  const bool is_pinned = !wish.places.empty();
  std::string text;
  for (const int cpu : wish.places) text += StrCat(text.empty() ? "{" : ",{", cpu, "}");
  if (is_pinned) {
    setenv(kPlaceVariables[0], text.c_str(), 1);
    setenv(kPlaceVariables[1], "close", 1);
  }
  if (wish.spins > 0) setenv(kSpinVariable, std::to_string(wish.spins).c_str(), 1);
  setenv(kRestartedBy, StrCat(getpid(), " ", is_pinned ? 1 : 0, " ", wish.spins).c_str(), 1);
  std::vector<std::string> words = OwnArguments();
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::error_code code;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", code);
  if (!code && !words.empty()) execv(self.c_str(), argv.data());
  TakeWishAway(is_pinned, wish.spins > 0);
}

std::vector<std::vector<int>> TeamCpus() {
  std::vector<std::vector<int>> cpus(static_cast<size_t>(ThreadCount()));
  ParallelFor(ThreadCount(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) cpus[static_cast<size_t>(i)] = AffinityOf(0);
  });
  return cpus;
}

}  // namespace moka
