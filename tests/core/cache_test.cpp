// A value kept on disk comes back whole or not at all.
#include "core/cache.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/choices.h"
#include "core/file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

class CacheTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::path(testing::TempDir()) / "cache_test";
  const fs::path file_ = folder_ / "deep" / "kept";
};

TEST_F(CacheTest, BytesComeBack) {
  EXPECT_EQ(ReadKept(file_), std::nullopt);
  for (const std::string& bytes : {std::string("plan\0\n", 6), std::string(), std::string(100000, 'x')}) {
    Keep(file_, bytes);
    EXPECT_EQ(ReadKept(file_), bytes);
  }
}

TEST_F(CacheTest, DamageIsAsIfNothingWereThere) {
  Keep(file_, "the fastest plan");
  const std::string whole = ReadFile(file_);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    WriteFileAtomically(file_, damaged);
    EXPECT_EQ(ReadKept(file_), std::nullopt) << "byte " << at;
    WriteFileAtomically(file_, whole.substr(0, at));
    EXPECT_EQ(ReadKept(file_), std::nullopt) << at << " bytes";
  }
}

TEST_F(CacheTest, WithoutAPlaceNothingIsKept) {
  Keep({}, "nowhere");
  EXPECT_EQ(ReadKept({}), std::nullopt);
  Keep("/proc/no/such/place", "refused");
  EXPECT_EQ(ReadKept("/proc/no/such/place"), std::nullopt);
}

// The cache of the process is where the test runs it.
TEST_F(CacheTest, ChoicesComeFromTheRunThenFromTheCache) {
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const std::string choice("fused\n\0\xff", 8);
  EXPECT_EQ(ReadChoice("a.plan"), std::nullopt);
  EXPECT_TRUE(UsedChoices().empty());
  KeepChoice("a.plan", choice);
  KeepChoice("b.plan", "second");
  EXPECT_EQ(ReadChoice("a.plan"), choice);
  EXPECT_EQ(ReadKept(folder_ / "moka" / "a.plan"), choice);
  PreferChoices({{"a.plan", "of the run"}});
  EXPECT_EQ(ReadChoice("a.plan"), "of the run");
  EXPECT_EQ(ReadChoice("b.plan"), "second");
  EXPECT_EQ(UsedChoices(), (Choices{{"a.plan", "of the run"}, {"b.plan", "second"}}));
  PreferChoices({});
  Keep(folder_ / "moka" / "c.plan", "third");
  RenewChoices();
  EXPECT_EQ(ReadChoice("c.plan"), std::nullopt);
  KeepChoice("c.plan", "anew");
  EXPECT_EQ(ReadChoice("c.plan"), "anew");
  EXPECT_EQ(ReadKept(folder_ / "moka" / "c.plan"), "anew");
  unsetenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
}

// A relative one would be another folder in each working folder.
TEST(CacheFolderTest, RelativePlacesAreIgnored) {
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  const std::string former = home == nullptr ? "" : home;
  setenv("XDG_CACHE_HOME", "relative", 1);  // NOLINT(concurrency-mt-unsafe)
  setenv("HOME", "/home/someone", 1);       // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(CacheFolder(), "/home/someone/.cache/moka");
  setenv("HOME", "someone", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(CacheFolder(), "");
  setenv("XDG_CACHE_HOME", "/cache", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(CacheFolder(), "/cache/moka");
  unsetenv("XDG_CACHE_HOME");         // NOLINT(concurrency-mt-unsafe)
  setenv("HOME", former.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

TEST(ChoicesTest, LinesHoldAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::string line = LineOf("cudnn-1.plan", bytes);
  EXPECT_EQ(line.substr(0, 19), "cudnn-1.plan 000102");
  EXPECT_EQ(ChoiceOf(line), std::pair(std::string("cudnn-1.plan"), bytes));
  EXPECT_EQ(ChoiceOf(LineOf("empty", "")), std::pair(std::string("empty"), std::string()));
  for (const char* bad : {"", "name", "name 0", "name 0g", "name 0A"}) EXPECT_EQ(ChoiceOf(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace moka
