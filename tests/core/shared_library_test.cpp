// Where NVIDIA's libraries are looked for beside a Python package.
#include "core/shared_library.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

class WheelsTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // site-packages with the wheels of these names, of which "empty" has no libraries.
  fs::path Packages(const std::string& environment) const {
    const fs::path packages = folder_ / environment / "lib/python3.11/site-packages";
    for (const char* wheel : {"cudnn/lib", "cu13/lib", "empty"}) CreateFolders(packages / "nvidia" / wheel);
    return packages;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "wheels_test";
};

TEST_F(WheelsTest, LibrariesAreFoundBesideThePackage) {
  const fs::path packages = Packages("own");
  const std::vector<std::string> expected = {(packages / "nvidia/cu13/lib/").string(),
                                             (packages / "nvidia/cudnn/lib/").string()};
  EXPECT_EQ(WheelFolders(packages / "moka/engine/bin/moka", ""), expected);
  EXPECT_EQ(WheelFolders(packages / "moka/_core.so", ""), expected);
  EXPECT_TRUE(WheelFolders(folder_ / "own/bin/moka", "").empty());
  EXPECT_TRUE(WheelFolders("", "").empty());
  EXPECT_TRUE(WheelFolders("/usr/bin/moka", "").empty());
}

TEST_F(WheelsTest, AndInTheActiveEnvironment) {
  const fs::path packages = Packages("active");
  const std::vector<std::string> found = WheelFolders("/usr/bin/moka", folder_ / "active");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], (packages / "nvidia/cu13/lib/").string());
  EXPECT_TRUE(WheelFolders("/usr/bin/moka", folder_ / "missing").empty());
}

// The one of the package comes before the one of the environment.
TEST_F(WheelsTest, ThePackagesOwnComeFirst) {
  const fs::path own = Packages("own");
  Packages("active");
  const std::vector<std::string> found = WheelFolders(own / "moka/engine/bin/moka", folder_ / "active");
  ASSERT_EQ(found.size(), 4U);
  EXPECT_TRUE(found[0].starts_with(own.string()));
}

}  // namespace
}  // namespace moka
