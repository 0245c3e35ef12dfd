// The parts of a new model's data, and the numbers that recipes derive from it.
#include "tools/new/new_data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "core/error.h"
#include "tests/tools/new/made_sets.h"
#include "tools/new/recipe.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

class NewDataTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / StrCat("moka_new_data_test_", getpid());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  NewData Look() const {
    LookOptions options;
    options.shares = {{"train", 0.7}, {"val", 0.3}};
    return LookAtParts({{"train", (folder_ / "photos").string()}}, options);
  }
  // "blue/3.png" of each part.
  static std::vector<std::set<std::string>> NamesOf(const NewData& data) {
    std::vector<std::set<std::string>> names;
    for (const NewPart& part : data.parts) {
      names.emplace_back();
      for (const int64_t i : part.pictures) names.back().insert(part.row(i).name);
    }
    return names;
  }

  fs::path folder_;
};

TEST_F(NewDataTest, AddedPicturesMoveNoOthersAndCopiesStayTogether) {
  MakeClassFolders(folder_ / "photos", 2, 40);
  const std::vector<std::set<std::string>> before = NamesOf(Look());
  ASSERT_EQ(before.size(), 2);
  EXPECT_EQ(before[0].size() + before[1].size(), 80);
  EXPECT_GT(before[1].size(), 12);
  EXPECT_LT(before[1].size(), 36);
  MakeClassFolders(folder_ / "photos", 2, 20, 40);
  for (int i = 0; i < 40; ++i) {
    fs::copy_file(folder_ / "photos/blue" / StrCat(i, ".png"), folder_ / "photos/blue" / StrCat("copy_", i, ".png"));
  }
  const std::vector<std::set<std::string>> after = NamesOf(Look());
  EXPECT_EQ(after[0].size() + after[1].size(), 160);
  for (size_t part = 0; part < 2; ++part) {
    for (const std::string& name : before[part]) EXPECT_TRUE(after[part].contains(name)) << name;
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(after[part].contains(StrCat("blue/", i, ".png")), after[part].contains(StrCat("blue/copy_", i, ".png")))
          << i;
    }
  }
}

TEST_F(NewDataTest, SharesCutTheLineOfHashes) {
  const std::vector<SplitPart> shares = {{"train", 0.5}, {"val", 0.25}};
  EXPECT_EQ(PartOfContent(0, shares), 0);
  EXPECT_EQ(PartOfContent(uint64_t{1} << 63U, shares), 1);
  EXPECT_EQ(PartOfContent((uint64_t{1} << 63U) - 4096, shares), 0);
  EXPECT_EQ(PartOfContent(~uint64_t{0}, shares), -1);
}

TEST_F(NewDataTest, FoldersOfPartsAreTakenByTheirNames) {
  for (const char* part : {"photos/Training", "photos/valid", "photos/testing", "photos/other"}) {
    MakeClassFolders(folder_ / part, 1, 1);
  }
  const auto is_part = [](const fs::path&) { return true; };
  const std::vector<PartSource> parts = PartFolders(folder_ / "photos", is_part);
  ASSERT_EQ(parts.size(), 3);
  EXPECT_EQ(parts[0].part, "train");
  EXPECT_EQ(parts[0].source, (folder_ / "photos/Training").string());
  EXPECT_EQ(parts[1].part, "val");
  EXPECT_EQ(parts[2].part, "test");
  MakeClassFolders(folder_ / "photos/train", 1, 1);
  EXPECT_THROW((void)PartFolders(folder_ / "photos", is_part), Error);
  fs::remove_all(folder_ / "photos/train");
  fs::remove_all(folder_ / "photos/Training");
  EXPECT_TRUE(PartFolders(folder_ / "photos", is_part).empty());
}

TEST_F(NewDataTest, ColorsAreThoseOfTheChosenPictures) {
  for (const int value : {10, 30, 200}) {
    Image image;
    image.Resize(20, 10, 1);
    for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(value);
    fs::create_directories(folder_ / "photos/a");
    PlaceFile(folder_ / "photos/a" / StrCat(value, ".png"), EncodePng(image));
  }
  LookOptions options;
  options.shares = {{"train", 1}};
  const NewData data = LookAtParts({{"train", (folder_ / "photos").string()}}, options);
  std::vector<int64_t> dark;
  for (const int64_t i : data.train().pictures) {
    if (data.train().row(i).name != "a/200.png") dark.push_back(i);
  }
  const ColorFacts colors = data.train().facts->ColorsOf(dark);
  ASSERT_EQ(colors.mean.size(), 1);
  EXPECT_DOUBLE_EQ(colors.mean[0], 20);
  EXPECT_DOUBLE_EQ(colors.deviation[0], 10);
}

TEST(NewRecipeTest, TestBatchesCountFewPicturesTwice) {
  EXPECT_EQ(TestBatch(40, 64), 40);
  EXPECT_EQ(TestBatch(341, 64), 31);
  EXPECT_EQ(TestBatch(128, 64), 64);
  EXPECT_EQ(TestBatch(337, 64), 26);  // 13 of them, one picture twice: 337 is prime
}

TEST(NewRecipeTest, PlacesAreFilled) {
  EXPECT_EQ(Filled("a: @x@ # ${x}\nb: @y@", {{"x", "1"}, {"y", "@x@"}}), "a: 1 # ${x}\nb: @x@");
  EXPECT_THROW((void)Filled("@z@", {}), Error);
  EXPECT_EQ(SectionOf("#= a\n1\n\n#= b\n2\n", "a"), "1\n");
  EXPECT_EQ(Repeated("mean_value", {114.62, 120}), "mean_value: 114.6 mean_value: 120");
  EXPECT_EQ(Rounded(0.995, 4), "0.995");
  EXPECT_EQ(Rounded(120, 0), "120");
  EXPECT_EQ(Quoted("a \"b\"\\"), "\"a \\\"b\\\"\\\\\"");
}

TEST(NewRecipeTest, QuantilesAreValues) {
  EXPECT_EQ(Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({3, 1, 2}, 0), 1);
  EXPECT_EQ(Quantile({3, 1, 2}, 1), 3);
}

}  // namespace
}  // namespace moka
