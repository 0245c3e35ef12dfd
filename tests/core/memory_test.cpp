// Limits of control groups of both versions, read from made-up /proc and /sys trees.
#include "core/device/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() : root_(fs::temp_directory_path() / StrCat("moka_memory_test_", getpid())) {
    fs::remove_all(root_);
    Write("proc/meminfo", "MemTotal:       8388608 kB\nMemFree:        1048576 kB\nMemAvailable:   6291456 kB\n");
  }
  ~MemoryTest() override { fs::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  MemoryFacts Read() const { return ReadMemoryFacts(root_); }

  static constexpr int64_t kGiB = int64_t{1} << 30;
  fs::path root_;
};

TEST_F(MemoryTest, WithoutGroupsItIsTheMachines) {
  EXPECT_EQ(Read().total_bytes, 8 * kGiB);
  EXPECT_EQ(Read().available_bytes, 6 * kGiB);
  EXPECT_FALSE(Read().is_limited);
}

TEST_F(MemoryTest, VersionTwoTakesTheLeastOfAllGroups) {
  Write("proc/self/cgroup", "0::/user/job/step");
  Write("sys/fs/cgroup/user/job/step/memory.max", "max");
  Write("sys/fs/cgroup/user/job/step/memory.current", "1073741824");
  EXPECT_EQ(Read().total_bytes, 8 * kGiB);
  Write("sys/fs/cgroup/user/job/memory.max", std::to_string(2 * kGiB));
  Write("sys/fs/cgroup/user/job/memory.current", std::to_string(kGiB));
  Write("sys/fs/cgroup/user/memory.max", std::to_string(4 * kGiB));
  Write("sys/fs/cgroup/user/memory.current", std::to_string(kGiB));
  EXPECT_EQ(Read().total_bytes, 2 * kGiB);
  EXPECT_EQ(Read().available_bytes, kGiB);
  EXPECT_TRUE(Read().is_limited);
  Write("sys/fs/cgroup/user/job/memory.stat", "anon 1\ninactive_file 536870912\nactive_file 1");
  EXPECT_EQ(Read().available_bytes, kGiB + kGiB / 2 + 1) << "what the page cache holds can be dropped";
}

TEST_F(MemoryTest, AContainersOwnGroupIsTheMountsRoot) {
  Write("proc/self/cgroup", "0::/../../docker/0123abcd");
  Write("sys/fs/cgroup/memory.max", std::to_string(kGiB));
  Write("sys/fs/cgroup/memory.current", std::to_string(3 * kGiB));
  EXPECT_EQ(Read().total_bytes, kGiB);
  EXPECT_EQ(Read().available_bytes, 0) << "a limit set below what is used";
  Write("sys/fs/cgroup/memory.max", "no number");
  EXPECT_EQ(Read().total_bytes, 8 * kGiB);
  Write("sys/fs/cgroup/memory.max", "-5");
  EXPECT_EQ(Read().total_bytes, 8 * kGiB);
}

TEST_F(MemoryTest, VersionOne) {
  Write("proc/self/cgroup", "9:memory:/box\n5:cpuset:/box\n0::/");
  Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(Read().total_bytes, 8 * kGiB) << "no limit";
  Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "99999999999999999999");
  EXPECT_EQ(Read().total_bytes, 8 * kGiB);
  Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", std::to_string(3 * kGiB));
  Write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", std::to_string(kGiB));
  Write("sys/fs/cgroup/memory/box/memory.stat", "cache 5\ninactive_file 7\ntotal_inactive_file 1073741824");
  EXPECT_EQ(Read().total_bytes, 3 * kGiB);
  EXPECT_EQ(Read().available_bytes, 3 * kGiB);
}

TEST_F(MemoryTest, HereThereIsSome) {
  const MemoryFacts facts = ReadMemoryFacts("/");
  EXPECT_GT(facts.total_bytes, int64_t{1} << 26);
  EXPECT_GT(facts.available_bytes, 0);
  EXPECT_LE(facts.available_bytes, facts.total_bytes);
}

}  // namespace
}  // namespace moka
