// What is kept on disk comes back whole or not at all.
#include "core/cache.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

}  // namespace
}  // namespace moka
