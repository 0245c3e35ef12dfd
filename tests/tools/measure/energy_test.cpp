// Counters of energy in a folder that is made like /sys/class/powercap.
#include "tools/measure/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

class EnergyTest : public testing::Test {
 protected:
  EnergyTest() { fs::create_directories(folder_); }
  ~EnergyTest() override { fs::remove_all(folder_); }

  void Zone(const std::string& zone, const std::string& name, int64_t range_uj, int64_t now_uj) const {
    fs::create_directories(folder_ / zone);
    WriteFileAtomically(folder_ / zone / "name", name + "\n");
    WriteFileAtomically(folder_ / zone / "max_energy_range_uj", StrCat(range_uj, "\n"));
    Count(zone, now_uj);
  }
  void Count(const std::string& zone, int64_t now_uj) const {
    WriteFileAtomically(folder_ / zone / "energy_uj", StrCat(now_uj, "\n"));
  }

  const fs::path folder_ = fs::temp_directory_path() / StrCat("moka_energy_test_", getpid());
};

TEST_F(EnergyTest, PackagesAndTheirMemoryAreSummed) {
  Zone("intel-rapl:0", "package-0", 1'000'000'000, 5'000'000);
  Zone("intel-rapl:0:0", "core", 1'000'000'000, 0);
  Zone("intel-rapl:0:1", "dram", 1'000'000'000, 1'000'000);
  Zone("intel-rapl:1", "package-1", 1'000'000'000, 0);
  Zone("intel-rapl:2", "psys", 1'000'000'000, 0);
  Zone("intel-rapl-mmio:0", "package-0", 1'000'000'000, 0);
  EnergyMeter meter(folder_);
  ASSERT_TRUE(meter.joules());
  EXPECT_EQ(*meter.joules(), 0);
  Count("intel-rapl:0", 7'500'000);
  Count("intel-rapl:0:0", 900'000'000);
  Count("intel-rapl:0:1", 1'250'000);
  Count("intel-rapl:1", 4'000'000);
  Count("intel-rapl:2", 900'000'000);
  Count("intel-rapl-mmio:0", 900'000'000);
  meter.Sample();
  EXPECT_DOUBLE_EQ(*meter.joules(), 2.5 + 0.25 + 4);
}

TEST_F(EnergyTest, ACounterThatBeginsAgainGoesOnFromItsRange) {
  Zone("intel-rapl:0", "package-0", 10'000'000, 9'000'000);
  EnergyMeter meter(folder_);
  Count("intel-rapl:0", 2'000'000);
  meter.Sample();
  EXPECT_DOUBLE_EQ(*meter.joules(), 3);
  Count("intel-rapl:0", 9'000'000);
  meter.Sample();
  Count("intel-rapl:0", 1'000'000);
  meter.Sample();
  EXPECT_DOUBLE_EQ(*meter.joules(), 3 + 7 + 2);
}

TEST_F(EnergyTest, AMachineThatDoesNotTellHasNoJoules) {
  EnergyMeter nothing(folder_);
  nothing.Sample();
  EXPECT_FALSE(nothing.joules());
  EXPECT_FALSE(EnergyMeter(folder_ / "missing").joules());
  Zone("intel-rapl:0", "psys", 10'000'000, 0);
  EXPECT_FALSE(EnergyMeter(folder_).joules()) << "no package";
}

// A sum without one of its parts would be too small without a word.
TEST_F(EnergyTest, ACounterThatCannotBeReadMakesTheSumUnknown) {
  Zone("intel-rapl:0", "package-0", 10'000'000, 0);
  Zone("intel-rapl:1", "package-1", 10'000'000, 0);
  EnergyMeter meter(folder_);
  fs::remove(folder_ / "intel-rapl:1/energy_uj");
  meter.Sample();
  EXPECT_FALSE(meter.joules());
  EXPECT_FALSE(EnergyMeter(folder_).joules());
}

}  // namespace
}  // namespace moka
