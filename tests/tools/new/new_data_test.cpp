// The parts of a new model's data, and the numbers that recipes derive from it.
#include "tools/new/new_data.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tests/tools/new/made_sets.h"
#include "tools/new/file_parts.h"
#include "tools/new/layouts.h"
#include "tools/new/recipe.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

TEST(PartOfFileTest, NamesSpeakOfTheirPartsAtTheirEnds) {
  EXPECT_EQ(PartOfFile("train.csv"), "train");
  EXPECT_EQ(PartOfFile("val.de.gz"), "val");
  EXPECT_EQ(PartOfFile("test_2016_flickr.de.gz"), "test");
  EXPECT_EQ(PartOfFile("qa3_10k-split_valid.txt"), "val");
  EXPECT_EQ(PartOfFile("qa1_single-supporting-fact_Train.txt"), "train");
  for (const char* name : {"words.txt", "qa1_train_words.txt", "train_test.csv", "training2.csv", "de.txt", ""})
    EXPECT_EQ(PartOfFile(name), "") << name;
}

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

// YOLO's classes have names in data.yaml alone, in each of its forms.
TEST_F(NewDataTest, NamesOfDataYamlAreTaken) {
  const fs::path set = folder_ / "set";
  fs::create_directories(folder_ / "made");
  for (const char* file : {"images/train/a.png", "labels/train/a.txt"}) {
    fs::create_directories((set / file).parent_path());
    PlaceFile(set / file, "");
  }
  const auto names = [&](const std::string& yaml) {
    PlaceFile(set / "data.yaml", yaml);
    const std::vector<PartSource> parts = FindBoxes(set.string(), folder_ / "made");
    const std::string file = (folder_ / "made/names.txt").string();
    EXPECT_THAT(parts.at(0).source, testing::EndsWith("labels/train," + file));
    return ReadFile(file);
  };
  EXPECT_EQ(names("nc: 2\nnames: ['red cell', \"white cell\"]  # two\n"), "red cell\nwhite cell\n");
  EXPECT_EQ(names("names:\n  - red\n  - white\nnc: 2\n"), "red\nwhite\n");
  EXPECT_EQ(names("path: .\nnames:\n  0: red\n\n  1: white\nval: images\n  2: no class\n"), "red\nwhite\n");
  const auto fault = [&](const std::string& yaml) -> std::string {
    try {
      return "no fault: " + names(yaml);
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(fault("names:\n  0: red\n  2: white\n"),
              testing::HasSubstr("data.yaml:3: \"2: white\" has not the number 1, which is next"));
  EXPECT_THAT(fault("names: ['red, white', blue]\n"),
              testing::HasSubstr("data.yaml:1: the quote in 'red does not end"));
  EXPECT_THAT(fault("nc: 2\n"), testing::HasSubstr("no file has the classes' names of YOLO's numbers"));
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
