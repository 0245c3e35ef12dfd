// The public sets Multi30k and bAbI, read where the environment variable MOKA_DATA names the folder of data sets.
#include <cstdlib>
#include <map>

#include "data/files/packed_file.h"
#include "data/text/vocabulary.h"
#include "tests/data/text/text_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

class TextSets : public TextLayerTest {
 protected:
  void SetUp() override {
    const char* data = std::getenv("MOKA_DATA");  // NOLINT(concurrency-mt-unsafe): no other thread yet
    if (data == nullptr || !fs::is_directory(fs::path(data) / "multi30k")) {
      GTEST_SKIP() << "MOKA_DATA names no folder with multi30k";
    }
    data_ = data;
  }
  LayerParameter Pairs(const std::string& part, const std::string& more) const {
    const auto file = [&](const std::string& name) { return (data_ / "multi30k" / name).string(); };
    return Layer("TextPairData",
                 StrCat("data_param { batch_size: 128 shuffle: true } text_pair_data_param { source_file: '",
                        file(part + ".de.gz"), "' target_file: '", file(part + ".en.gz"),
                        "' source_vocabulary: 'de.txt' target_vocabulary: 'en.txt' output: SOURCE_LENGTH output: "
                        "TARGET_LENGTH output: SOURCE ",
                        more, " }"),
                 3);
  }
  void MakeVocabularies() const {
    for (const std::string language : {"de", "en"}) {
      MakeVocabulary({data_ / "multi30k" / StrCat("train.", language, ".gz")}, At(language + ".txt"), {});
    }
  }
  // Returns the share of a batch's places up to its longest sentence that have no word, in the source and in the
  // target.
  static std::pair<double, double> Padding(Pipeline& pipeline) {
    const int64_t batches = pipeline.epoch_size() / pipeline.batch_size();
    std::array<double, 2> words{};
    std::array<double, 2> places{};
    for (int64_t b = 0; b < batches; ++b) {
      const auto tops = Next(pipeline);
      for (size_t side : {0, 1}) {
        for (const float length : tops[side]) words[side] += static_cast<double>(length);
        places[side] +=
            static_cast<double>(*std::ranges::max_element(tops[side])) * static_cast<double>(tops[side].size());
      }
    }
    return {1 - words[0] / places[0], 1 - words[1] / places[1]};
  }
  fs::path data_;
};

// Counts and types are those that Python's `\w+|[^\w\s]` finds in the lower-cased files.
TEST_F(TextSets, Multi30kHasThePublishedWords) {
  const VocabularyReport de = MakeVocabulary({data_ / "multi30k/train.de.gz"}, At("de.txt"), {});
  const VocabularyReport en = MakeVocabulary({data_ / "multi30k/train.en.gz"}, At("en.txt"), {});
  EXPECT_EQ(de.lines, 29000);
  EXPECT_EQ(en.lines, 29000);
  EXPECT_EQ(de.tokens, 365761);
  EXPECT_EQ(en.tokens, 380728);
  EXPECT_EQ(de.types, 17911);
  EXPECT_EQ(en.types, 9779);
  // The longest sentences have 45 and 41 words.
  EXPECT_EQ(Open(Pairs("train", "source_length: 46 target_length: 42"))->epoch_size(), 29000);
  EXPECT_LT(Open(Pairs("train", "source_length: 45 target_length: 42"))->epoch_size(), 29000);
  EXPECT_LT(Open(Pairs("train", "source_length: 46 target_length: 41"))->epoch_size(), 29000);
  EXPECT_EQ(Open(Pairs("val", ""), TEST)->epoch_size(), 1014);
  EXPECT_EQ(Open(Pairs("test_2016_flickr", ""), TEST)->epoch_size(), 1000);
}

// The shares that docs/data.md names.
TEST_F(TextSets, BucketsLeaveLessPadding) {
  MakeVocabularies();
  const auto mixed = Padding(*Open(Pairs("train", "")));
  const auto buckets =
      Padding(*Open(Pairs("train", "bucket: 10 bucket: 12 bucket: 14 bucket: 17 bucket: 21 bucket: 27")));
  EXPECT_NEAR(mixed.first, 0.535, 0.005);
  EXPECT_NEAR(mixed.second, 0.519, 0.005);
  EXPECT_NEAR(buckets.first, 0.143, 0.005);
  EXPECT_NEAR(buckets.second, 0.110, 0.005);
}

TEST_F(TextSets, EveryTaskOfBabiHasAThousandTestQuestions) {
  const fs::path archive = data_ / "babi/babi_en.tar.gz";
  if (!fs::exists(archive)) GTEST_SKIP() << "MOKA_DATA has no babi";
  std::vector<std::string> tests;
  std::vector<fs::path> all;
  for (ArchiveReader tar(archive); tar.Next();) {
    const std::string name = fs::path(tar.name()).filename().string();
    if (tar.name().find("/en/") == std::string::npos || !name.ends_with(".txt")) continue;
    Write(name, tar.Read());
    all.push_back(At(name));
    if (name.ends_with("_test.txt")) tests.push_back(name);
  }
  ASSERT_EQ(tests.size(), 20U);
  const VocabularyReport report = MakeVocabulary(all, At("words.txt"), {.are_stories = true});
  EXPECT_EQ(report.kept, report.types);
  for (const std::string& test : tests) {
    const auto layer = [&](const std::string& file) {
      return Layer("StoryData",
                   StrCat("data_param { batch_size: 1000 } story_data_param { source: '", file,
                          "' vocabulary: 'words.txt' output: ANSWER output: STORY output: SENTENCES words: 11 }"),
                   3);
    };
    const auto pipeline = Open(layer(test), TEST);
    EXPECT_EQ(pipeline->epoch_size(), 1000) << test;
    const auto tops = Next(*pipeline);
    for (const auto& top : {tops[0], tops[1]}) EXPECT_EQ(std::ranges::count(top, 3.0F), 0) << test;
    EXPECT_LE(*std::ranges::max_element(tops[2]), 50);
    EXPECT_GE(*std::ranges::min_element(tops[2]), 1) << test;
    EXPECT_EQ(Open(layer(test.substr(0, test.size() - 8) + "train.txt"))->epoch_size(), 1000) << test;
  }
}

}  // namespace
}  // namespace moka
