// SkipGramData: what stands in each output, how often words are centres, neighbours and drawn, and the errors.
#include <cmath>
#include <map>

#include "tests/data/text/text_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SkipGrams : public TextLayerTest {
 protected:
  SkipGrams() {
    Write("words.txt", "<pad>\n<s>\n</s>\n<unk>\na\nb\nc\nd\n");  // 4 a, 5 b, 6 c, 7 d
    Write("text.txt", "a b c d\n");
  }
  static LayerParameter Words(const std::string& more, const std::string& data = "batch_size: 4") {
    return Layer("SkipGramData",
                 StrCat("data_param { ", data, " } skip_gram_data_param { source: 'text.txt' vocabulary: 'words.txt' ",
                        "output: CENTER output: WORDS output: IS_NEAR ", more, " }"),
                 3);
  }
  std::string FaultOf(const std::string& more) const { return OpenError(Words(more)); }

  // How often each pair of centre and near word comes in so many batches of 4.
  std::map<std::pair<int, int>, int> PairsOf(const std::string& more, int batches) {
    const auto pipeline = Open(Words(more));
    std::map<std::pair<int, int>, int> pairs;
    for (int i = 0; i < batches; ++i) {
      const auto tops = Next(*pipeline);
      const size_t width = tops[1].size() / 4;
      for (size_t n = 0; n < 4; ++n) {
        ++pairs[{static_cast<int>(tops[0][n]), static_cast<int>(tops[1][n * width])}];
      }
    }
    return pairs;
  }
};

TEST_F(SkipGrams, OutputsHaveTheirShapesAndValues) {
  const auto pipeline = Open(Words("negatives: 2 window: 1 subsample: 0"));
  EXPECT_EQ(pipeline->types()[0].shape, Shape({4}));
  EXPECT_EQ(pipeline->types()[1].shape, Shape({4, 3}));
  EXPECT_EQ(pipeline->types()[2].shape, Shape({4, 3}));
  EXPECT_EQ(pipeline->epoch_size(), 4);
  for (int i = 0; i < 50; ++i) {
    const auto tops = Next(*pipeline);
    EXPECT_THAT(tops[0], ElementsAre(4, 5, 6, 7));  // without shuffle the text's order
    EXPECT_THAT(tops[2], ElementsAre(1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0));
    for (size_t n = 0; n < 4; ++n) {
      EXPECT_EQ(std::abs(tops[1][3 * n] - tops[0][n]), 1) << "a window of 1";
      for (size_t k = 1; k < 3; ++k) {
        EXPECT_NE(tops[1][3 * n + k], tops[1][3 * n]);
        EXPECT_GE(tops[1][3 * n + k], 4);
      }
    }
  }
}

// In "a b c d" with a window of 2 the near word of a is b where the window reaches 1, b or c where it reaches 2.
TEST_F(SkipGrams, NearWordsAreTakenMoreOftenTheNearerTheyAre) {
  constexpr int kBatches = 8000;
  auto pairs = PairsOf("window: 2 subsample: 0", kBatches);
  EXPECT_NEAR((pairs[{4, 5}]), kBatches * 3 / 4, 200);
  EXPECT_NEAR((pairs[{4, 6}]), kBatches / 4, 200);
  EXPECT_EQ((pairs.count({4, 7})), 0U);
  // b: a or c where it reaches 1; a, c or d where it reaches 2.
  EXPECT_NEAR((pairs[{5, 4}]), kBatches * 5 / 12, 250);
  EXPECT_NEAR((pairs[{5, 7}]), kBatches / 6, 200);
}

// Shares of the text are 0.5, 0.25, 0.125 and 0.125; with subsample 0.125 a is kept half of the times, b 0.707, c and d
// always.
TEST_F(SkipGrams, FrequentWordsArePassedOver) {
  Write("text.txt", "a b a c\na b a d\n");
  std::map<int, int> centers;
  constexpr int kBatches = 8000;
  for (const auto& [pair, count] : PairsOf("window: 5 subsample: 0.125", kBatches)) centers[pair.first] += count;
  const double all = 4.0 * kBatches;
  const double kept = 0.5 * 0.5 + 0.25 * std::sqrt(0.5) + 0.25;
  EXPECT_NEAR(centers[4] / all, 0.25 / kept, 0.02);
  EXPECT_NEAR(centers[5] / all, 0.25 * std::sqrt(0.5) / kept, 0.02);
  EXPECT_NEAR(centers[6] / all, 0.125 / kept, 0.02);
}

TEST_F(SkipGrams, WordsAreDrawnByAPowerOfTheirCount) {
  Write("text.txt", "b a\na a\na a\na a\nb c\nb d\n");  // a 7, b 3, c 1, d 1
  for (const double power : {1.0, 0.5}) {
    const auto pipeline = Open(Words(StrCat("window: 1 subsample: 0 negatives: 8 power: ", power)));
    std::map<int, double> drawn;
    for (int i = 0; i < 3000; ++i) {
      const auto tops = Next(*pipeline);
      for (size_t n = 0; n < 4; ++n) {
        if (tops[1][n * 9] != 5) continue;  // where b is near, a, c and d are drawn
        for (size_t k = 1; k < 9; ++k) ++drawn[static_cast<int>(tops[1][n * 9 + k])];
      }
    }
    EXPECT_EQ(drawn.count(5), 0U);
    EXPECT_NEAR(drawn[4] / drawn[6], std::pow(7, power), 0.5) << power;
    EXPECT_NEAR(drawn[7] / drawn[6], 1, 0.1) << power;
  }
}

TEST_F(SkipGrams, UnknownWordsAndWordsAloneAreLeftOut) {
  Write("text.txt", "a x b\nc\n\nx d x\nC D\n");
  const auto pipeline = Open(Words("window: 1 subsample: 0"));
  EXPECT_EQ(pipeline->epoch_size(), 4);
  const auto tops = Next(*pipeline);
  EXPECT_THAT(tops[0], ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(tops[1][0], 5);   // b is next to a, since x is not there
  EXPECT_EQ(tops[1][18], 6);  // d's neighbour is c
}

TEST_F(SkipGrams, BatchesDoNotDependOnThreadsAndResume) {
  Write("text.txt", "a b c d a b\nd c b a\nb b d d a c\n");
  ExpectOneOrder(Words("subsample: 0.1", "batch_size: 3 shuffle: true"), 20);
}

TEST_F(SkipGrams, WordsThatAreNeverKeptStillGivePairs) {
  Write("text.txt", "a b\n");
  const auto pairs = PairsOf("subsample: 1e-30", 2);
  EXPECT_EQ(pairs.size(), 2U);
  EXPECT_EQ((pairs.at({4, 5})), 4);
  EXPECT_EQ((pairs.at({5, 4})), 4);
}

TEST_F(SkipGrams, ErrorsNameTheFieldOrTheLine) {
  EXPECT_THAT(FaultOf("output: CENTER"),
              HasSubstr("skip_gram_data_param.output is given 4 times, and the layer has 3"));
  EXPECT_THAT(FaultOf("window: 0"), HasSubstr("skip_gram_data_param.window is 0, expected 1..65536"));
  EXPECT_THAT(FaultOf("negatives: 0"), HasSubstr("skip_gram_data_param.negatives is 0, expected 1..65536"));
  EXPECT_THAT(FaultOf("subsample: -1"), HasSubstr("subsample is -1, expected 0 or more"));
  Write("text.txt", "a b\n\xff\n");
  EXPECT_THAT(FaultOf(""), HasSubstr("text.txt:2"));
  Write("text.txt", "a\nx y\n");
  EXPECT_THAT(FaultOf(""), HasSubstr("no line has two words of"));
}

}  // namespace
}  // namespace moka
