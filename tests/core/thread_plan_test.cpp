// Threads and CPUs of a team, over a table of machines; and what is read of a machine, from trees of its files.
#include "core/threads/thread_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "core/threads/cpu_list.h"
#include "core/threads/cpus.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Pin = ThreadWish::Pin;
using Ints = std::vector<int>;

// Packages of `cores` cores; the second hyper-threads of all cores are counted after the first ones, as Linux does.
CpuFacts Machine(int packages, int cores, int hyper_threads) {
  CpuFacts facts;
  const int all = packages * cores;
  for (int id = 0; id < all * hyper_threads; ++id) {
    facts.allowed.push_back({.id = id, .core = id % all, .package = id % all / cores});
  }
  facts.box_cpus = all * hyper_threads;
  return facts;
}

// The same process, bound to some CPUs of the machine.
CpuFacts BoundTo(const CpuFacts& machine, const Ints& cpus) {
  CpuFacts facts = machine;
  std::erase_if(facts.allowed, [&](const Cpu& cpu) { return std::ranges::find(cpus, cpu.id) == cpus.end(); });
  return facts;
}

CpuFacts WithQuota(CpuFacts facts, double quota) {
  facts.quota = quota;
  return facts;
}

CpuFacts Rank(CpuFacts facts, int rank, int ranks) {
  facts.local_rank = rank;
  facts.local_ranks = ranks;
  return facts;
}

int Threads(const CpuFacts& facts, int wished = 0) { return PlanThreads(facts, {.threads = wished}).threads; }
ThreadPlan ThreadPlanPinned(const CpuFacts& facts, int wished = 0) {
  return PlanThreads(facts, {.threads = wished, .pin = Pin::kCores});
}
// The CPUs of the team's threads.
Ints TeamOf(const ThreadPlan& plan) {
  return {plan.places.begin(), plan.places.begin() + std::min<std::ptrdiff_t>(plan.threads, std::ssize(plan.places))};
}

TEST(ThreadPlanTest, ByDefaultThereIsAThreadACore) {
  EXPECT_EQ(Threads(Machine(1, 1, 1)), 1);
  EXPECT_EQ(Threads(Machine(1, 2, 1)), 2);
  EXPECT_EQ(Threads(Machine(2, 4, 2)), 8) << "hyper-threads share a core";
  EXPECT_EQ(Threads(Machine(1, 1, 2)), 1);
  EXPECT_EQ(Threads(Machine(2, 4, 2), 16), 16) << "what is asked for is given";
  EXPECT_EQ(Threads(Machine(1, 2, 1), 100), 100);
  EXPECT_THAT(PlanThreads(Machine(2, 4, 2), {}).places, IsEmpty());
}

TEST(ThreadPlanTest, AMaskCounts) {
  const CpuFacts machine = Machine(2, 4, 2);  // cores 0-3 and 4-7, second hyper-threads 8-15
  EXPECT_EQ(Threads(BoundTo(machine, {2, 3, 6})), 3);
  EXPECT_EQ(Threads(BoundTo(machine, {2, 10})), 1) << "two hyper-threads of one core";
  EXPECT_THAT(ThreadPlanPinned(BoundTo(machine, {2, 3, 6, 10})).places, ElementsAre(2, 3, 6, 10));
  EXPECT_THAT(ThreadPlanPinned(BoundTo(machine, {10, 3})).places, ElementsAre(10, 3)) << "in order of cores";
}

TEST(ThreadPlanTest, AQuotaBoundsTheDefault) {
  const CpuFacts machine = Machine(2, 32, 1);
  EXPECT_EQ(Threads(WithQuota(machine, 2)), 2) << "a container of 2 CPUs of 64";
  EXPECT_EQ(Threads(WithQuota(machine, 1.5)), 2);
  EXPECT_EQ(Threads(WithQuota(machine, 2.4)), 2);
  EXPECT_EQ(Threads(WithQuota(machine, 0.3)), 1);
  EXPECT_EQ(Threads(WithQuota(machine, 1000)), 64);
  EXPECT_EQ(Threads(WithQuota(machine, 2), 8), 8);
  EXPECT_EQ(Threads(WithQuota(Machine(1, 4, 2), 6)), 4) << "six hyper-threads' time, four cores";
  EXPECT_EQ(Threads(Rank(WithQuota(machine, 8), 1, 4)), 2) << "ranks of one container share it";
  EXPECT_EQ(Threads(Rank(WithQuota(machine, 3), 1, 2)), 1) << "and not more than it";
  EXPECT_EQ(Threads(Rank(WithQuota(machine, 1.5), 3, 4)), 1);
}

TEST(ThreadPlanTest, TheShareOfOtherThreadsCountsHyperThreads) {
  EXPECT_EQ(PlanThreads(Machine(2, 4, 2), {}).cpus, 16);
  EXPECT_EQ(PlanThreads(Rank(Machine(2, 4, 2), 0, 4), {}).cpus, 4);
  EXPECT_EQ(PlanThreads(WithQuota(Machine(2, 4, 2), 3), {}).cpus, 3);
  EXPECT_EQ(PlanThreads(Machine(2, 4, 2), {.threads = 1}).cpus, 16) << "whatever the team takes";
}

TEST(ThreadPlanTest, PinnedThreadsTakeHyperThreadsLast) {
  const ThreadPlan plan = ThreadPlanPinned(Machine(2, 2, 2), 6);  // second hyper-threads 4-7
  EXPECT_THAT(plan.places, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(TeamOf(plan), ElementsAre(0, 1, 2, 3, 4, 5));
  // Siblings counted side by side: 0 and 1, 2 and 3.
  CpuFacts side_by_side;
  for (int id = 0; id < 4; ++id) side_by_side.allowed.push_back({.id = id, .core = id - id % 2, .package = 0});
  side_by_side.box_cpus = 4;
  EXPECT_THAT(ThreadPlanPinned(side_by_side).places, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(TeamOf(ThreadPlanPinned(side_by_side)), ElementsAre(0, 2));
  // Sockets counted in turns: cores of one socket stay together.
  CpuFacts in_turns;
  for (int id = 0; id < 4; ++id) in_turns.allowed.push_back({.id = id, .core = id, .package = id % 2});
  in_turns.box_cpus = 4;
  EXPECT_THAT(ThreadPlanPinned(in_turns).places, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(TeamOf(ThreadPlanPinned(Machine(1, 2, 1), 5)), ElementsAre(0, 1))
      << "more threads than places: the runtime's";
}

TEST(ThreadPlanTest, RanksHaveSlicesThatDoNotOverlap) {
  const CpuFacts machine = Machine(2, 4, 2);
  EXPECT_THAT(TeamOf(ThreadPlanPinned(Rank(machine, 0, 4))), ElementsAre(0, 1));
  EXPECT_THAT(TeamOf(ThreadPlanPinned(Rank(machine, 3, 4))), ElementsAre(6, 7));
  EXPECT_THAT(TeamOf(ThreadPlanPinned(Rank(machine, 1, 4), 4)), ElementsAre(2, 3, 10, 11))
      << "their hyper-threads next";
  EXPECT_EQ(ThreadPlanPinned(Rank(machine, 1, 4)).places.size(), 16U) << "the process keeps its whole mask";
  EXPECT_EQ(Threads(Rank(machine, 2, 3)), 2) << "equal shares, two cores left over";
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 9, 12, 16}) {
    std::map<int, int> uses;
    for (int rank = 0; rank < ranks; ++rank) {
      const ThreadPlan plan = ThreadPlanPinned(Rank(machine, rank, ranks));
      EXPECT_EQ(plan.threads, std::max(1, 8 / ranks));
      for (const int cpu : TeamOf(plan)) EXPECT_EQ(++uses[cpu], 1) << ranks << " ranks, CPU " << cpu;
    }
  }
}

TEST(ThreadPlanTest, MoreRanksThanCpusTakeTurnsAndAreWarned) {
  const CpuFacts machine = Machine(1, 2, 1);
  EXPECT_THAT(TeamOf(ThreadPlanPinned(Rank(machine, 2, 3))), ElementsAre(0));
  EXPECT_EQ(Threads(Rank(machine, 2, 3)), 1);
  EXPECT_THAT(PlanThreads(Rank(machine, 0, 3), {}).warnings,
              ElementsAre(HasSubstr("3 ranks of 1 thread each share 2 CPUs")));
  EXPECT_THAT(PlanThreads(Rank(machine, 1, 3), {}).warnings, IsEmpty()) << "one rank says it";
  EXPECT_THAT(PlanThreads(Rank(machine, 0, 2), {}).warnings, IsEmpty());
  EXPECT_THAT(PlanThreads(Rank(machine, 0, 2), {.threads = 2}).warnings, ElementsAre(HasSubstr("share 2 CPUs")));
  EXPECT_THAT(PlanThreads(machine, {.threads = 9}).warnings, IsEmpty());
}

TEST(ThreadPlanTest, WhatALauncherBoundIsTheRanksOwn) {
  const CpuFacts machine = Machine(2, 4, 2);
  const CpuFacts bound = Rank(BoundTo(machine, {4, 5, 12, 13}), 2, 4);
  EXPECT_EQ(Threads(bound), 2);
  EXPECT_THAT(TeamOf(ThreadPlanPinned(bound)), ElementsAre(4, 5));
  EXPECT_EQ(Threads(Rank(BoundTo(machine, {7}), 3, 4)), 1);
  EXPECT_EQ(Threads(Rank(BoundTo(machine, {0, 1, 2, 3, 4, 5, 6, 7}), 1, 2)), 8) << "hyper-threads left out";
}

TEST(ThreadPlanTest, ASocketOfSeveralRanksIsSharedAndNotPinned) {
  const CpuFacts socket = Rank(BoundTo(Machine(2, 4, 2), {4, 5, 6, 7, 12, 13, 14, 15}), 3, 4);
  const ThreadPlan plan = ThreadPlanPinned(socket);
  EXPECT_EQ(plan.threads, 2) << "two of the four ranks are on this socket";
  EXPECT_THAT(plan.places, IsEmpty());
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("gave this rank the same 8 CPUs as others")));
  EXPECT_THAT(PlanThreads(socket, {}).warnings, IsEmpty());
}

TEST(ThreadPlanTest, CpusOfTheUserAreTakenInTheirOrder) {
  const CpuFacts machine = Machine(1, 4, 1);
  const auto plan = [&](const CpuFacts& facts, Ints cpus, int threads = 0) {
    return PlanThreads(facts, {.threads = threads, .pin = Pin::kCpus, .cpus = std::move(cpus)});
  };
  EXPECT_THAT(TeamOf(plan(machine, {3, 1})), ElementsAre(3, 1));
  EXPECT_THAT(plan(machine, {3, 1}).places, ElementsAre(3, 1, 0, 2)) << "the rest is for other threads";
  EXPECT_THAT(TeamOf(plan(machine, {3, 1}, 1)), ElementsAre(3));
  EXPECT_THAT(TeamOf(plan(Rank(machine, 1, 2), {3, 1, 0, 2})), ElementsAre(0, 2)) << "a list for all ranks is divided";
  const auto error = [&](Ints cpus) {
    try {
      plan(machine, std::move(cpus));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUsage);
      return e.text();
    }
    return std::string("none");
  };
  EXPECT_EQ(error({0, 4}), "--pin: CPU 4 is none of those this process may use (0-3)");
  EXPECT_EQ(error({0, 1, 0}), "--pin names CPU 0 twice");
}

TEST(CpuListTest, ListsAreReadAndWritten) {
  EXPECT_EQ(ParseCpuList("0-3,8"), (Ints{0, 1, 2, 3, 8}));
  EXPECT_EQ(ParseCpuList("7,2"), (Ints{7, 2}));
  EXPECT_EQ(ParseCpuList("5-5"), (Ints{5}));
  for (const char* text : {"", "a", "1-", "-1", "3-1", "1,,2", "1, 2", "0-99999999", "1-2-3", "0x1"}) {
    EXPECT_EQ(ParseCpuList(text), std::nullopt) << text;
  }
  EXPECT_EQ(CpuListText({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(CpuListText({4}), "4");
  EXPECT_EQ(CpuListText({}), "");
}

TEST(AffinityTest, TheSystemsMaskIsRead) {
  const Ints cpus = AffinityOf(0);
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::ranges::is_sorted(cpus));
}

class CpuFactsTest : public testing::Test {
 protected:
  CpuFactsTest() { std::filesystem::create_directories(root_); }
  ~CpuFactsTest() override { std::filesystem::remove_all(root_); }
  CpuFactsTest(const CpuFactsTest&) = delete;
  CpuFactsTest& operator=(const CpuFactsTest&) = delete;

  void Write(const std::string& file, const std::string& line) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << line << "\n";
  }
  // Two sockets of two cores with two hyper-threads, CPU 3 and its sibling 7 offline.
  void WriteMachine() const {
    Write("sys/devices/system/cpu/online", "0-2,4-6");
    for (const int id : {0, 1, 2, 4, 5, 6}) {
      const std::string topology = StrCat("sys/devices/system/cpu/cpu", id, "/topology/");
      Write(topology + "core_cpus_list", StrCat(id % 4, ",", id % 4 + 4));
      Write(topology + "physical_package_id", StrCat(id % 4 / 2));
    }
  }
  CpuFacts Read(const Ints& allowed = {0, 1, 2, 4, 5, 6}) const {
    return ReadCpuFacts(allowed, root_, [&](const char* name) -> const char* {
      const auto it = variables_.find(name);
      return it == variables_.end() ? nullptr : it->second.c_str();
    });
  }

  const std::filesystem::path root_ = std::filesystem::temp_directory_path() / StrCat("moka_cpu_facts_", getpid());
  std::map<std::string, std::string> variables_;
};

TEST_F(CpuFactsTest, TopologyAndOfflineCpus) {
  WriteMachine();
  const CpuFacts facts = Read();
  ASSERT_EQ(facts.allowed.size(), 6U);
  EXPECT_EQ(facts.allowed[4].id, 5);
  EXPECT_EQ(facts.allowed[4].core, 1);
  EXPECT_EQ(facts.allowed[2].package, 1);
  EXPECT_EQ(facts.box_cpus, 6);
  EXPECT_EQ(facts.quota, 0);
  EXPECT_EQ(Threads(facts), 3);
  EXPECT_THAT(ThreadPlanPinned(facts).places, ElementsAre(0, 1, 2, 4, 5, 6));
}

TEST_F(CpuFactsTest, CpusOfOneNumaNodeAreInIt) {
  EXPECT_EQ(NumaNodeOf({0}, root_), std::nullopt) << "the system does not say";
  Write("sys/devices/system/node/online", "0,2");
  Write("sys/devices/system/node/node0/cpulist", "0-1,4-5");
  Write("sys/devices/system/node/node2/cpulist", "2-3,6-7");
  EXPECT_EQ(NumaNodeOf({0, 4, 5}, root_), 0);
  EXPECT_EQ(NumaNodeOf({7}, root_), 2);
  EXPECT_EQ(NumaNodeOf({1, 2}, root_), std::nullopt);
  EXPECT_EQ(NumaNodeOf({}, root_), std::nullopt);
}

TEST_F(CpuFactsTest, NothingToReadLimitsNothing) {
  const CpuFacts facts = Read({0, 1, 5});
  EXPECT_EQ(facts.box_cpus, 3);
  EXPECT_EQ(Threads(facts), 3) << "each CPU is a core";
  EXPECT_EQ(Threads(Read({})), 1);
}

TEST_F(CpuFactsTest, QuotaOfVersionTwoIsTheLeastOfAllGroups) {
  WriteMachine();
  Write("proc/self/cgroup", "0::/user/job/step");
  Write("sys/fs/cgroup/user/job/step/cpu.max", "max 100000");
  EXPECT_EQ(Read().quota, 0);
  Write("sys/fs/cgroup/user/job/cpu.max", "150000 100000");
  EXPECT_EQ(Read().quota, 1.5);
  Write("sys/fs/cgroup/user/cpu.max", "400000 100000");
  EXPECT_EQ(Read().quota, 1.5);
  EXPECT_EQ(Threads(Read()), 2);
}

TEST_F(CpuFactsTest, AContainersOwnGroupIsTheMountsRoot) {
  WriteMachine();
  Write("proc/self/cgroup", "0::/docker/0123abcd");
  Write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(Read().quota, 2);
  Write("sys/fs/cgroup/cpu.max", "no number");
  EXPECT_EQ(Read().quota, 0);
  Write("sys/fs/cgroup/cpu.max", "100000 0");
  EXPECT_EQ(Read().quota, 0);
}

TEST_F(CpuFactsTest, QuotaAndCpusOfVersionOne) {
  WriteMachine();
  Write("proc/self/cgroup", "5:cpuset:/box\n4:cpu,cpuacct:/box\n0::/");
  Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1");
  Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Read().quota, 0);
  Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(Read().quota, 0.5);
  Write("sys/fs/cgroup/cpuset/box/cpuset.effective_cpus", "0-1");
  EXPECT_EQ(Read({0, 1}).box_cpus, 2);
}

TEST_F(CpuFactsTest, RanksOfAContainersCpusetShareIt) {
  WriteMachine();
  Write("proc/self/cgroup", "0::/");
  Write("sys/fs/cgroup/cpuset.cpus.effective", "0-1,4-5");
  variables_ = {{"LOCAL_WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}};
  const CpuFacts facts = Read({0, 1, 4, 5});
  EXPECT_EQ(facts.box_cpus, 4);
  EXPECT_THAT(TeamOf(ThreadPlanPinned(facts)), ElementsAre(1))
      << "not bound by the launcher: the mask is the container's";
  EXPECT_THAT(TeamOf(ThreadPlanPinned(Read({1, 5}))), ElementsAre(1)) << "bound";
}

TEST_F(CpuFactsTest, EveryLaunchersRanksAreKnown) {
  const auto ranks = [&](std::map<std::string, std::string> variables) {
    variables_ = std::move(variables);
    const CpuFacts facts = Read();
    EXPECT_THAT(facts.doubts, IsEmpty());
    return std::pair(facts.local_rank, facts.local_ranks);
  };
  EXPECT_EQ(ranks({}), std::pair(0, 1));
  EXPECT_EQ(ranks({{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}}), std::pair(3, 4));
  EXPECT_EQ(ranks({{"MPI_LOCALNRANKS", "4"}, {"MPI_LOCALRANKID", "2"}}), std::pair(2, 4));
  EXPECT_EQ(ranks({{"LOCAL_WORLD_SIZE", "8"}, {"LOCAL_RANK", "5"}}), std::pair(5, 8));
  const std::map<std::string, std::string> batch = {{"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(ranks(batch), std::pair(0, 1)) << "the batch script is no rank";
  std::map<std::string, std::string> step = batch;
  step["SLURM_STEP_ID"] = "0";
  EXPECT_EQ(ranks(step), std::pair(0, 4));
  step["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  step["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  EXPECT_EQ(ranks(step), std::pair(1, 2)) << "the launcher nearest to the rank";
  EXPECT_EQ(ranks({{"LOCAL_RANK", "5"}}), std::pair(0, 1)) << "half of a pair is none";
}

TEST_F(CpuFactsTest, RanksThatCannotBeAreIgnoredAndSaid) {
  for (const auto& [rank, size] : std::map<std::string, std::string>{{"4", "4"}, {"x", "4"}, {"-1", "4"}, {"0", "0"}}) {
    variables_ = {{"LOCAL_WORLD_SIZE", size}, {"LOCAL_RANK", rank}};
    const CpuFacts facts = Read();
    EXPECT_EQ(facts.local_ranks, 1);
    EXPECT_THAT(PlanThreads(facts, {}).warnings, ElementsAre(HasSubstr(StrCat("LOCAL_RANK=", rank))));
  }
}

}  // namespace
}  // namespace moka
