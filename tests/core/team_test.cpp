// Where threads of the team and beside it run. The OpenMP runtime reads its places before main(), so these tests run
// this program again with them.
#include "core/threads/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/text.h"
#include "core/threads/cpu_list.h"
#include "core/threads/cpus.h"
#include "core/threads/parallel.h"

namespace moka {
namespace {

constexpr const char* kAllCpus = "MOKA_TEST_ALL_CPUS";  // what the first process may use

// Whether this is the process with places; the one without runs it and asserts that it went well.
bool IsPlaced() {
  if (std::getenv(kAllCpus) != nullptr) return true;
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string line =
      StrCat(kAllCpus, "=", CpuListText(AffinityOf(0)), " OMP_PLACES=threads OMP_PROC_BIND=close '",
             std::filesystem::read_symlink("/proc/self/exe").string(), "' --gtest_filter=", test->test_suite_name(),
             ".", test->name(), " >&2");
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  return false;
}

TEST(TeamTest, ThreadsThatLeaveTheTeamRunWhereTheProcessMay) {
  if (!IsPlaced()) return;
  const std::string all = std::getenv(kAllCpus);
  ASSERT_TRUE(HasPlaces());
  EXPECT_TRUE(IsPlacedByUser());
  EXPECT_FALSE(IsPinned()) << "not by itself";
  const std::vector<int> own = AffinityOf(0);
  ASSERT_EQ(own.size(), 1U);
  std::vector<int> born;
  std::vector<int> left;
  std::thread([&] {
    born = AffinityOf(0);
    LeaveTeamCpus();
    left = AffinityOf(0);
  }).join();
  EXPECT_EQ(born, own) << "a thread of the main thread inherits its one CPU";
  EXPECT_EQ(CpuListText(left), all);
  EXPECT_EQ(AffinityOf(0), own);
  std::vector<int> allowed;
  for (const Cpu& cpu : ProcessCpus().allowed) allowed.push_back(cpu.id);
  EXPECT_EQ(CpuListText(allowed), all) << "the main thread's mask is not the process's";
  EXPECT_GE(CpuShare(), 1);
}

TEST(TeamTest, RanksOfAProcessShareItsCpus) {
  const int all = CpuShare();
  for (const int ranks : {2, 3, 1000}) {
    SetRanksHere(ranks);
    EXPECT_EQ(CpuShare(), std::max(1, all / ranks)) << ranks;
  }
  SetRanksHere(1);
  EXPECT_EQ(CpuShare(), all);
}

// The runtime ends threads of a team after a smaller region and makes new ones for the next larger one.
TEST(TeamTest, ATeamStaysOnItsPlacesWhenItsSizeChanges) {
  if (!IsPlaced()) return;
  const std::vector<int> all = *ParseCpuList(std::getenv(kAllCpus));
  for (const int threads : {3, 1, 2, 3}) {
    SetThreadCount(threads);
    const std::vector<std::vector<int>> cpus = TeamCpus();
    ASSERT_EQ(cpus.size(), static_cast<size_t>(threads));
    for (const std::vector<int>& each : cpus) EXPECT_EQ(each.size(), 1U);
    if (std::ssize(all) < threads) continue;
    for (int i = 0; i < threads; ++i) EXPECT_EQ(cpus[static_cast<size_t>(i)][0], all[static_cast<size_t>(i)]);
  }
}

TEST(TeamTest, WithoutPlacesNothingIsBound) {
  if (HasPlaces()) GTEST_SKIP() << "the environment binds threads";
  const std::vector<int> before = AffinityOf(0);
  LeaveTeamCpus();
  EXPECT_EQ(AffinityOf(0), before);
  SetThreadCount(2);
  for (const std::vector<int>& cpus : TeamCpus()) EXPECT_EQ(cpus, before);
}

}  // namespace
}  // namespace moka
