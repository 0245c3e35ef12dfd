// All files are read below a given root, so that a test can show another machine's /proc and /sys: a container, a large
// box, a launcher's ranks.
#include "core/threads/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "core/text.h"
#include "core/threads/control_group.h"
#include "core/threads/cpu_list.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Returns the first line of a file of the kernel's (these files say no size); empty if it cannot be read.
std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(Trim(line));
}

Cpu CpuAt(int id, const fs::path& folder) {
  Cpu cpu{.id = id, .core = id, .package = 0};
  const fs::path topology = folder / StrCat("cpu", id) / "topology";
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {  // the second: kernels before 5.3
    const auto siblings = ParseCpuList(FirstLine(topology / name));
    if (!siblings) continue;
    cpu.core = *std::ranges::min_element(*siblings);
    break;
  }
  cpu.package = WholeNumber(FirstLine(topology / "physical_package_id")).value_or(0);
  return cpu;
}

// "150000 100000" of cpu.max, or the two files of version 1. 0: no limit.
double QuotaAt(const fs::path& folder) {
  std::vector<std::string> words = Split(FirstLine(folder / "cpu.max"), ' ');
  if (words.size() != 2) words = {FirstLine(folder / "cpu.cfs_quota_us"), FirstLine(folder / "cpu.cfs_period_us")};
  const auto quota = WholeNumber(words[0]);  // "max" and -1 are none
  const auto period = WholeNumber(words[1]);
  return quota && period && *period > 0 ? static_cast<double>(*quota) / *period : 0;
}

// The least of all groups this process is in.
double QuotaOf(const fs::path& root) {
  double least = 0;
  for (const fs::path& folder : ControlGroupFolders(root, "cpu")) {
    const double quota = QuotaAt(folder);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  }
  return least;
}

int BoxCpus(const fs::path& root, size_t allowed) {
  const auto online = ParseCpuList(FirstLine(root / "sys/devices/system/cpu/online"));
  size_t count = online ? online->size() : allowed;
  for (const fs::path& folder : ControlGroupFolders(root, "cpuset")) {
    for (const char* name : {"cpuset.cpus.effective", "cpuset.effective_cpus"}) {
      const auto cpus = ParseCpuList(FirstLine(folder / name));
      if (cpus) count = std::min(count, cpus->size());
    }
  }
  return static_cast<int>(std::max(count, allowed));
}

struct RankVariables {
  const char* size;
  const char* rank;
  const char* also = nullptr;  // must be there too
};

// Open MPI, MPICH and Intel MPI, Slurm, torchrun. A Slurm batch script has the first two without being a rank.
constexpr RankVariables kLaunchers[] = {{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                        {"MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
                                        {"SLURM_NTASKS_PER_NODE", "SLURM_LOCALID", "SLURM_STEP_ID"},
                                        {"LOCAL_WORLD_SIZE", "LOCAL_RANK"}};

void ReadRanks(const std::function<const char*(const char*)>& variable, CpuFacts& facts) {
  for (const RankVariables& names : kLaunchers) {
    const char* size_text = variable(names.size);
    const char* rank_text = variable(names.rank);
    if (size_text == nullptr || rank_text == nullptr) continue;
    if (names.also != nullptr && variable(names.also) == nullptr) continue;
    const auto size = WholeNumber(size_text);
    const auto rank = WholeNumber(rank_text);
    if (!size || !rank || *rank >= *size || *size > kMostCpus) {
      facts.doubts.push_back(StrCat(names.rank, "=", Printable(rank_text), " with ", names.size, "=",
                                    Printable(size_text), " is no rank of a box and is ignored"));
      continue;
    }
    facts.local_ranks = *size;
    facts.local_rank = *rank;
    return;
  }
}

}  // namespace

std::vector<int> AffinityOf(int pid) {
  std::vector<int> cpus;
  // The kernel refuses a set smaller than its own.
  for (int most = 1024; cpus.empty() && most <= kMostCpus; most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most), [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t bytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(pid, bytes, set.get()) != 0) continue;
    for (int cpu = 0; cpu < most; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
    }
  }
  return cpus;
}

CpuFacts ReadCpuFacts(const std::vector<int>& allowed, const fs::path& root,
                      const std::function<const char*(const char*)>& variable) {
  CpuFacts facts;
  for (const int id : allowed) facts.allowed.push_back(CpuAt(id, root / "sys/devices/system/cpu"));
  if (facts.allowed.empty()) facts.allowed.push_back({});
  facts.box_cpus = BoxCpus(root, facts.allowed.size());
  facts.quota = QuotaOf(root);
  ReadRanks(variable, facts);
  return facts;
}

std::optional<int> NumaNodeOf(const std::vector<int>& cpus, const fs::path& root) {
  const fs::path nodes = root / "sys/devices/system/node";
  const auto online = ParseCpuList(FirstLine(nodes / "online"));
  if (!online || cpus.empty()) return std::nullopt;
  for (const int node : *online) {
    const auto all = ParseCpuList(FirstLine(nodes / StrCat("node", node) / "cpulist"));
    if (!all) continue;
    const auto is_here = [&](int cpu) { return std::ranges::find(*all, cpu) != all->end(); };
    if (std::ranges::all_of(cpus, is_here)) return node;
  }
  return std::nullopt;
}

}  // namespace moka
