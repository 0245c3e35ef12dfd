// StoryData: values of every output, the noise of times, validation, and the errors of files and fields.
#include "data/text/stories.h"

#include <map>
#include <set>

#include "core/rng.h"
#include "data/pipeline/open_pipeline.h"
#include "tests/data/text/text_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Stories : public TextLayerTest {
 protected:
  Stories() {
    // 4 mary, 5 went, 6 home, 7 john, 8 slept, 9 where, 10 is, 11 milk,football
    Write("words.txt", "<pad>\n<s>\n</s>\n<unk>\nmary\nwent\nhome\njohn\nslept\nwhere\nis\nmilk,football\n");
    Write("qa.txt",
          "1 Mary went home.\n"
          "2 John slept.\n"
          "3 Where is Mary? \thome\t1\n"
          "4 Mary slept there.\n"
          "5 Is John home?\tMilk,Football\t4 2\n"
          "1 John went home.\n"
          "2 Where is John?\thome\t1\n");
  }
  static LayerParameter Story(const std::string& more, int tops = 1, const std::string& data = "batch_size: 3") {
    return Layer(
        "StoryData",
        StrCat("data_param { ", data, " } story_data_param { source: 'qa.txt' vocabulary: 'words.txt' ", more, " }"),
        tops);
  }
  std::string FaultOf(const std::string& more, int tops = 1, const std::string& data = "batch_size: 1",
                      Phase phase = TRAIN) const {
    return OpenError(Story(more, tops, data), phase);
  }
  std::string FaultOfFile(const std::string& text) const {
    Write("qa.txt", text);
    return FaultOf("output: ANSWER");
  }
};

TEST_F(Stories, EveryOutputHasItsPlace) {
  const auto pipeline =
      Open(Story("output: STORY output: QUESTION output: ANSWER output: TIME output: SENTENCES "
                 "output: SUPPORT sentences: 2 words: 4",
                 6));
  EXPECT_EQ(pipeline->types()[0].shape, Shape({3, 2, 4}));
  EXPECT_EQ(pipeline->types()[1].shape, Shape({3, 4}));
  EXPECT_EQ(pipeline->types()[2].shape, Shape({3}));
  EXPECT_EQ(pipeline->types()[3].shape, Shape({3, 2}));
  EXPECT_EQ(pipeline->types()[4].shape, Shape({3}));
  EXPECT_EQ(pipeline->types()[5].shape, Shape({3, 2}));
  const auto tops = Next(*pipeline);
  EXPECT_THAT(tops[0], ElementsAre(7, 8, 0, 0, 4, 5, 6, 0,    // john slept; mary went home
                                   4, 8, 3, 0, 7, 8, 0, 0,    // mary slept there; john slept: the last two
                                   7, 5, 6, 0, 0, 0, 0, 0));  // john went home
  EXPECT_THAT(tops[1], ElementsAre(9, 10, 4, 0, 10, 7, 6, 0, 9, 10, 7, 0));
  EXPECT_THAT(tops[2], ElementsAre(6, 11, 6));
  EXPECT_THAT(tops[3], ElementsAre(1, 2, 1, 2, 1, 0));
  EXPECT_THAT(tops[4], ElementsAre(2, 2, 1));
  EXPECT_THAT(tops[5], ElementsAre(0, 1, 1, 1, 1, 0));
  EXPECT_EQ(pipeline->epoch_size(), 3);
}

TEST_F(Stories, WordsAreThoseOfTheLongestSentence) {
  EXPECT_EQ(Open(Story("output: STORY"))->types()[0].shape, Shape({3, 50, 3}));
  // Support that is older than the sentences shown is not shown.
  const auto tops = Next(*Open(Story("output: SUPPORT output: SENTENCES sentences: 1", 2)));
  EXPECT_THAT(tops[0], ElementsAre(0, 1, 1));
  EXPECT_THAT(tops[1], ElementsAre(1, 1, 1));
}

TEST_F(Stories, SeveralFilesFollowEachOther) {
  Write("more.txt", "1 Mary went home.\n2 Where is Mary?\thome\n");
  LayerParameter layer = Story("output: ANSWER source: 'more.txt'");
  EXPECT_EQ(Open(layer)->epoch_size(), 4);
  Write("more.txt", "1 Mary went home.\n2 Where is Mary?\n");
  EXPECT_THAT(OpenError(layer), HasSubstr("more.txt:2: the question has no answer"));
}

// Gaps as the paper draws them: b of 0 .. ceil(L * noise) empty places equally likely, then every choice of places.
TEST_F(Stories, TimesHaveGapsInTrainingOnly) {
  std::string text;
  for (int i = 1; i <= 5; ++i) text += StrCat(i, " Mary slept.\n");
  Write("qa.txt", text + "6 Where is Mary?\thome\n");
  const std::string fields = "output: TIME sentences: 7 time_noise: 0.4";  // 2 empty places at most
  EXPECT_THAT(Next(*Open(Story(fields, 1, "batch_size: 1"), TEST))[0], ElementsAre(1, 2, 3, 4, 5, 0, 0));
  const auto pipeline = Open(Story(fields, 1, "batch_size: 1"));
  std::map<std::vector<float>, int> seen;
  constexpr int kDraws = 6000;
  for (int i = 0; i < kDraws; ++i) {
    const std::vector<float> times = Next(*pipeline)[0];
    for (size_t k = 1; k < 5; ++k) ASSERT_GT(times[k], times[k - 1]);
    ASSERT_EQ(times[5] + times[6], 0);
    ++seen[times];
  }
  EXPECT_EQ(seen.size(), 21U);  // 5 of 7 places; the other choices are among them
  // 1 2 3 4 5 comes with 1/3 (b = 0), 1/18 (1 of 6 choices) and 1/63.
  EXPECT_NEAR((seen[{1, 2, 3, 4, 5, 0, 0}]), kDraws * (1.0 / 3 + 1.0 / 18 + 1.0 / 63), 150);
  EXPECT_NEAR((seen[{3, 4, 5, 6, 7, 0, 0}]), kDraws / 63.0, 40);
}

TEST_F(Stories, TimesEndWithTheNumberOfSentences) {
  std::string text;
  for (int i = 1; i <= 4; ++i) text += StrCat(i, " Mary slept.\n");
  Write("qa.txt", text + "5 Where is Mary?\thome\n");
  const auto pipeline = Open(Story("output: TIME sentences: 4 time_noise: 1", 1, "batch_size: 1"));
  bool is_capped = false;
  for (int i = 0; i < 200; ++i) {
    const std::vector<float> times = Next(*pipeline)[0];
    for (size_t k = 1; k < 4; ++k) ASSERT_TRUE(times[k] > times[k - 1] || times[k] == 4);
    ASSERT_LE(times[3], 4);
    is_capped = is_capped || times[2] == 4;
  }
  EXPECT_TRUE(is_capped);
}

class ManyStories : public Stories {
 protected:
  static constexpr int kStories = 90;
  ManyStories() {
    std::string words = "<pad>\n<s>\n</s>\n<unk>\n";
    std::string text;
    for (int i = 0; i < kStories; ++i) {
      words += StrCat("w", i, "\n");
      text += StrCat("1 w", i, " w", i / 2, "\n2 w", i, "?\tw", i, "\t1\n");
    }
    Write("words.txt", words);
    Write("qa.txt", text);
  }
  std::multiset<float> Answers(const LayerParameter& layer, Phase phase) const {
    const auto pipeline = Open(layer, phase);
    std::multiset<float> answers;
    for (int64_t i = 0; i < pipeline->epoch_size(); ++i) answers.insert(Next(*pipeline)[0][0]);
    return answers;
  }
};

TEST_F(ManyStories, ValidationSharesTheQuestionsOut) {
  const LayerParameter layer = Story("output: ANSWER validation: 0.2", 1, "batch_size: 1 shuffle: true");
  const std::multiset<float> train = Answers(layer, TRAIN);
  const std::multiset<float> test = Answers(layer, TEST);
  EXPECT_EQ(train.size(), 72U);
  EXPECT_EQ(test.size(), 18U);
  std::multiset<float> all = train;
  all.insert(test.begin(), test.end());
  EXPECT_EQ(std::set<float>(all.begin(), all.end()).size(), 90U);
  EXPECT_GT(*test.rbegin() - *test.begin(), 50) << "drawn from all of the file";
  // The layers of a trainer have seeds of their own; the parts are the same whatever they are.
  const auto other = OpenPipeline(layer, {.phase = TEST, .seed = 7, .base_folder = folder_});
  std::multiset<float> again;
  for (int i = 0; i < 18; ++i) again.insert(Next(*other)[0][0]);
  EXPECT_EQ(again, test);
  EXPECT_THAT(FaultOf("output: ANSWER validation: 0.001", 1, "batch_size: 1", TEST),
              HasSubstr("no question is left by validation"));
}

TEST_F(ManyStories, OneOrderForAnyNumberOfWorkersAndResumedAnywhere) {
  ExpectOneOrder(
      Story("output: STORY output: TIME output: ANSWER sentences: 3 time_noise: 1", 3, "batch_size: 20 shuffle: true"),
      40);
}

TEST_F(Stories, LinesThatAreNoStoryAreNamed) {
  EXPECT_THAT(FaultOfFile("1 Mary went home.\n2 Where is Mary?\n"), HasSubstr("qa.txt:2: the question has no answer"));
  EXPECT_THAT(FaultOfFile("1 Mary went home.\n2 Where is Mary?\t\t1\n"),
              HasSubstr("qa.txt:2: the question has no answer"));
  EXPECT_THAT(FaultOfFile("1 Where is Mary?\tat home\n"), HasSubstr("qa.txt:1: the answer \"at home\" has blanks"));
  EXPECT_THAT(FaultOfFile("1 Mary slept.\n2 Where is Mary?\thome\t1 x\n"), HasSubstr("qa.txt:2: expected the number"));
  EXPECT_THAT(FaultOfFile("1 Mary slept.\n2 Where is Mary?\thome\t2\n"),
              HasSubstr("qa.txt:2: the question is supported by 2, which is no sentence of its story"));
  EXPECT_THAT(FaultOfFile("1 Mary slept.\n2 Is Mary?\thome\t1\tx\n"), HasSubstr("more than an answer and its support"));
  EXPECT_THAT(FaultOfFile("1 Mary slept.\n3 John slept.\n"),
              HasSubstr("qa.txt:2: the line is number 3 and the one before it 1"));
  EXPECT_THAT(FaultOfFile("Mary slept.\n"), HasSubstr("qa.txt:1: expected \"NUMBER SENTENCE\", found \"Mary slept.\""));
  EXPECT_THAT(FaultOfFile("1 ...\n"), HasSubstr("qa.txt:1: the sentence has no words"));
  EXPECT_THAT(FaultOfFile("1 Mary slept.\n\n"), HasSubstr("qa.txt:2: expected \"NUMBER SENTENCE\""));
  EXPECT_THAT(FaultOfFile("1 M\xE4ry\n"), HasSubstr("qa.txt:1: byte 2 of the line is not UTF-8"));
  EXPECT_THAT(FaultOfFile("1 Mary slept.\n"), HasSubstr("qa.txt: no question"));
  EXPECT_THAT(FaultOfFile("1 Mary slept.\n2 Where is Mary?\tpark\n"),
              HasSubstr("qa.txt:2: the answer \"park\" is not in"));
  EXPECT_EQ(Next(*Open(Story("output: ANSWER"), TEST))[0], (std::vector<float>{3, 3, 3}));
  EXPECT_THAT(WarningsOf(Story("output: ANSWER"), TEST), HasSubstr("words.txt: 1; a net that answers <unk>"));
  EXPECT_THAT(FaultOf("output: ANSWER validation: 0.5", 1, "batch_size: 1", TEST), HasSubstr("\"park\" is not in"));
}

TEST(StoryLines, OddLinesAreReadOrRefused) {
  constexpr std::string_view kPieces[] = {"1", "12", " ", "\t", "?", ".", "mary", "a,b", "\xC3\xBC", "\xFF", "-1", ""};
  RandomStream random(4, 0);
  int good = 0;
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string line = i % 2 == 0 ? "7 mary" : "";
    for (uint64_t k = random.Below(8); k > 0; --k) line += kPieces[random.Below(std::size(kPieces))];
    try {
      const StoryLine story = ParseStoryLine(line);
      EXPECT_GT(story.number, 0) << line;
      EXPECT_FALSE(story.words.empty()) << line;
      EXPECT_TRUE(!story.answer || !story.answer->empty()) << line;
      EXPECT_TRUE(story.answer || story.support.empty()) << line;
      ++good;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kBadData) << line;
      ++refused;
    }
  }
  EXPECT_GT(good, 2000);
  EXPECT_GT(refused, 2000);
}

TEST_F(Stories, BadLinesMayBeLeftOut) {
  Write("qa.txt",
        "1 Mary slept.\n2 Where is Mary?\n3 J\xF6hn slept.\n4 Is Mary home?\thome\t1\n5 Is John home?\thome\t3\n");
  const auto pipeline = Open(Story("output: SENTENCES output: QUESTION", 2, "batch_size: 1 on_bad_record: SKIP"));
  EXPECT_EQ(pipeline->epoch_size(), 1);
  const auto tops = Next(*pipeline);
  EXPECT_THAT(tops[0], ElementsAre(1));
  EXPECT_THAT(tops[1], ElementsAre(10, 4, 6));
}

TEST_F(Stories, FieldsThatCannotBeAreNamed) {
  EXPECT_THAT(FaultOf("output: STORY words: 2"),
              HasSubstr("qa.txt:1: the sentence has 3 words, and story_data_param.words is 2"));
  EXPECT_THAT(FaultOf("output: STORY words: 0"), HasSubstr("words is 0"));
  EXPECT_THAT(FaultOf("output: STORY sentences: 0"), HasSubstr("sentences is 0, expected 1..65536"));
  EXPECT_THAT(FaultOf("output: STORY time_noise: 1.5"), HasSubstr("time_noise is 1.5, expected 0..1"));
  EXPECT_THAT(FaultOf("output: STORY validation: 1"), HasSubstr("validation is 1, expected 0 or more, below 1"));
  EXPECT_THAT(FaultOf("output: STORY", 2),
              HasSubstr("story_data_param.output is given 1 times, and the layer has 2 tops"));
  EXPECT_THAT(FaultOf("output: STORY", 1, "batch_size: 1 cache_mb: 4"), HasSubstr("does not read data_param.cache_mb"));
  LayerParameter layer = Story("output: STORY");
  layer.mutable_story_data_param()->clear_source();
  EXPECT_THAT(OpenError(layer), HasSubstr("story_data_param.source is not set"));
  layer = Story("output: STORY");
  layer.mutable_story_data_param()->clear_vocabulary();
  EXPECT_THAT(OpenError(layer), HasSubstr("story_data_param.vocabulary is not set"));
}

}  // namespace
}  // namespace moka
