// A pure function, tested by tables: sockets first, then cores, hyper-threads last, cut into equal slices where a
// launcher has put several ranks on this box.
#include "core/threads/thread_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/threads/cpu_list.h"

namespace moka {
namespace {

using Core = std::vector<int>;  // its hyper-threads, ascending

// Returns the cores in the order of their sockets, then of their first CPUs.
std::vector<Core> CoresOf(const std::vector<Cpu>& cpus) {
  std::map<std::pair<int, int>, Core> by_place;
  for (const Cpu& cpu : cpus) by_place[{cpu.package, cpu.core}].push_back(cpu.id);
  std::vector<Core> cores;
  for (auto& [place, core] : by_place) {
    std::ranges::sort(core);
    cores.push_back(std::move(core));
  }
  return cores;
}

// The first hyper-thread of every core, then the second, and so on.
std::vector<int> HyperThreadsLast(const std::vector<Core>& cores) {
  std::vector<int> order;
  bool is_done = false;
  for (size_t turn = 0; !is_done; ++turn) {
    is_done = true;
    for (const Core& core : cores) {
      if (turn >= core.size()) continue;
      order.push_back(core[turn]);
      is_done = false;
    }
  }
  return order;
}

// How many ranks run on the CPUs that this one may use.
int RanksHere(const CpuFacts& facts) {
  const auto allowed = static_cast<double>(facts.allowed.size());
  if (facts.box_cpus <= 0 || allowed >= facts.box_cpus) return facts.local_ranks;
  return std::clamp(static_cast<int>(std::lround(facts.local_ranks * allowed / facts.box_cpus)), 1, facts.local_ranks);
}

// Part `rank` of `ranks` equal parts; one item each, in turns, where there are fewer than ranks.
template <class Item>
std::vector<Item> Slice(const std::vector<Item>& items, int ranks, int rank) {
  const auto count = static_cast<int>(items.size());
  const int each = std::max(1, count / ranks);
  const int begin = count >= ranks ? rank * each : rank % count;
  return {items.begin() + begin, items.begin() + begin + each};
}

std::vector<int> CheckedCpus(const CpuFacts& facts, const std::vector<int>& wanted) {
  std::set<int> allowed;
  for (const Cpu& cpu : facts.allowed) allowed.insert(cpu.id);
  std::set<int> seen;
  for (const int cpu : wanted) {
    if (!allowed.contains(cpu)) {
      throw Error(ErrorKind::kUsage, StrCat("--pin: CPU ", cpu, " is none of those this process may use (",
                                            CpuListText({allowed.begin(), allowed.end()}), ")"));
    }
    if (!seen.insert(cpu).second) throw Error(ErrorKind::kUsage, StrCat("--pin names CPU ", cpu, " twice"));
  }
  return wanted;
}

// The CPUs and threads of one rank, in the order in which the team's threads take them.
struct Share {
  std::vector<int> cpus;
  int threads = 1;  // by default
};

Share ShareOf(const CpuFacts& facts, const ThreadWish& wish, int ranks, int rank) {
  if (wish.pin == ThreadWish::Pin::kCpus) {
    const std::vector<int> cpus = Slice(CheckedCpus(facts, wish.cpus), ranks, rank);
    return {cpus, static_cast<int>(cpus.size())};
  }
  const std::vector<Core> cores = CoresOf(facts.allowed);
  if (static_cast<int>(cores.size()) < ranks) return {Slice(HyperThreadsLast(cores), ranks, rank), 1};
  const std::vector<Core> own = Slice(cores, ranks, rank);
  return {HyperThreadsLast(own), static_cast<int>(own.size())};
}

}  // namespace

ThreadPlan PlanThreads(const CpuFacts& facts, const ThreadWish& wish) {
  ThreadPlan plan;
  plan.warnings = facts.doubts;
  const int ranks = RanksHere(facts);
  // Where a launcher gave CPUs to several ranks, this rank's part of them cannot be known; how large it is can.
  const bool has_own = ranks == facts.local_ranks || ranks == 1;
  const Share share = ShareOf(facts, wish, ranks, has_own && ranks > 1 ? facts.local_rank : 0);
  int limit = static_cast<int>(share.cpus.size());
  if (facts.quota > 0) {
    limit = std::min(limit, std::max(1, static_cast<int>(std::lround(facts.quota)) / facts.local_ranks));
  }
  plan.cpus = limit;
  plan.threads = wish.threads > 0 ? wish.threads : std::min(limit, share.threads);
  const int64_t all_threads = int64_t{plan.threads} * facts.local_ranks;
  if (facts.local_ranks > 1 && facts.local_rank == 0 && all_threads > facts.box_cpus) {
    plan.warnings.push_back(StrCat(facts.local_ranks, " ranks of ", plan.threads,
                                   plan.threads == 1 ? " thread" : " threads", " each share ", facts.box_cpus,
                                   " CPUs: they will wait for each other"));
  }
  if (wish.pin == ThreadWish::Pin::kNone) return plan;
  if (!has_own) {
    plan.warnings.push_back(StrCat("--pin: the launcher gave this rank the same ", facts.allowed.size(),
                                   " CPUs as others, so its threads are not pinned; let it bind each rank to its own "
                                   "cores, or to none"));
    return plan;
  }
  plan.places = share.cpus;
  for (const int cpu : HyperThreadsLast(CoresOf(facts.allowed))) {
    if (std::ranges::find(plan.places, cpu) == plan.places.end()) plan.places.push_back(cpu);
  }
  return plan;
}

}  // namespace moka
