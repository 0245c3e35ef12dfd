// Importers of SampleRecords on real sets, read where the environment variable MOKA_DATA names the folder of data sets.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "data/files/packed_file.h"
#include "data/import/import.h"
#include "data/labels/sample_writing.h"
#include "tests/data/sample_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class RealSets : public SampleImports {
 protected:
  // The path of a file of the sets; the test is skipped where it is not there.
  std::string Set(const std::string& file) {
    const char* data = std::getenv("MOKA_DATA");  // NOLINT(concurrency-mt-unsafe): no other thread yet
    const std::filesystem::path path = std::filesystem::path(data == nullptr ? "" : data) / file;
    return data != nullptr && std::filesystem::exists(path) ? path.string() : std::string();
  }
};

TEST_F(RealSets, BloodCellsHaveTheirBoxes) {
  const std::string tar = Set("bccd/bccd_trainval.tar");
  if (tar.empty()) GTEST_SKIP() << "MOKA_DATA names no folder with bccd";
  const ImportReport report = Import(StrCat("voc:", tar, ",train"), At("db"), {});
  EXPECT_EQ(report.records, 205);
  std::map<int, int> boxes;
  for (const SampleRecord& record : Records()) {
    for (const SampleBox& box : record.box()) ++boxes[box.label()];
  }
  EXPECT_THAT(Schema().box_class(), ElementsAre("none", "Platelets", "RBC", "WBC"));
  EXPECT_THAT(boxes, ElementsAre(Pair(1, 209), Pair(2, 2381), Pair(3, 214)));  // of 2,382 one has no area
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_THAT(report.warnings[0], HasSubstr("Annotations/BloodImage_00343.xml: the box 181 329 181 329 has no area"));
}

TEST_F(RealSets, NucleiAreOneBoxEach) {
  const std::string tar = Set("nuclei/nuclei_fluo_dev.tar");
  if (tar.empty()) GTEST_SKIP() << "MOKA_DATA names no folder with nuclei";
  const std::string folder = tar + "/nuclei/";
  const std::string source = StrCat("instances:", folder, "images,", folder, "instances,", folder, "train.txt");
  EXPECT_EQ(Import(source, At("db"), {}).records, 361);
  int64_t nuclei = 0;
  int64_t pixels = 0;
  for (const SampleRecord& record : Records()) {
    const Image image = Decoded(record.picture());
    nuclei += record.box_size();
    for (const SampleBox& box : record.box()) {
      const std::vector<uint32_t> runs = Runs(box);
      EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), int64_t{0}), image.width * image.height);
      for (size_t i = 1; i < runs.size(); i += 2) pixels += runs[i];
    }
  }
  EXPECT_EQ(nuclei, 15645);
  EXPECT_EQ(pixels, 7506261);
}

TEST_F(RealSets, RoadScenesKeepTheirMasks) {
  const std::string tar = Set("camvid/camvid_train_val.tar");
  if (tar.empty()) GTEST_SKIP() << "MOKA_DATA names no folder with camvid";
  const std::string source = StrCat("masks:", tar, "/camvid/val,", tar, "/camvid/valannot");
  EXPECT_EQ(Import(source, At("db"), {}).records, 101);
  std::vector<int64_t> pixels(12);
  for (const SampleRecord& record : Records()) {
    for (const uint8_t value : Decoded(record.mask()).pixels) ++pixels.at(value);
  }
  EXPECT_THAT(pixels, ElementsAre(1601620, 4531180, 98499, 5053176, 1521751, 2851125, 155724, 537197, 304716, 113531,
                                  387010, 297271));
}

// PngSuite has each kind of picture twice: basn plain, basi interlaced.
TEST_F(RealSets, InterlacedPngsHaveTheSameSamples) {
  const std::string suite = Set("image-edge-cases/pngsuite.tar");
  if (suite.empty()) GTEST_SKIP() << "MOKA_DATA names no folder with image-edge-cases";
  std::map<std::string, ValueMask> masks;
  for (ArchiveReader tar(suite); tar.Next();) {
    const std::string name = std::filesystem::path(tar.name()).stem().string();
    const bool is_one_channel = name.size() > 4 && (name[4] == '0' || name[4] == '3') && name.starts_with("bas");
    if (is_one_channel) masks[name] = ReadValueMask(tar.Read());
  }
  int pairs = 0;
  for (const auto& [name, mask] : masks) {
    if (!name.starts_with("basi")) continue;
    ++pairs;
    EXPECT_EQ(mask.values, masks.at("basn" + name.substr(4)).values) << name;
  }
  EXPECT_EQ(pairs, 9);
  EXPECT_EQ(masks.at("basn3p01").values.at(0) + masks.at("basn3p01").values.at(4), 1);
  EXPECT_EQ(*std::ranges::max_element(masks.at("basn0g04").values), 14);
  EXPECT_GT(*std::ranges::max_element(masks.at("basn0g16").values), 255);
}

}  // namespace
}  // namespace moka
