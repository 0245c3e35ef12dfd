// moka new for texts: pairs of lines become a translator, stories with questions a net that answers, without a word
// changed; and what they cannot take is refused.
#include <gmock/gmock.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "tests/tools/new/new_model_test.h"

namespace moka {
namespace {

using testing::HasSubstr;

class NewTextCliTest : public NewModelTest {
 protected:
  static std::string Text(const std::string& file) { return ReadFile(folder_ / file); }
  // Numbers in words: "drei vier" and "three four".
  static void MakePairs(int pairs) {
    static constexpr std::array<const char*, 6> kFrom = {"eins", "zwei", "drei", "vier", "sechs", "sieben"};
    static constexpr std::array<const char*, 6> kTo = {"one", "two", "three", "four", "six", "seven"};
    std::string from;
    std::string to;
    for (int i = 0; i < pairs; ++i) {
      int rest = i * 7 + 1;
      for (int word = 0; word < 2 + i % 3; ++word, rest /= 6) {
        const auto at = static_cast<size_t>(rest % 6);
        from += StrCat(word == 0 ? "" : " ", kFrom.at(at));
        to += StrCat(word == 0 ? "" : " ", kTo.at(at));
      }
      from += "\n";
      to += "\n";
    }
    PlaceFile(folder_ / "de.txt", from);
    PlaceFile(folder_ / "en.txt", to);
  }
  // Who is where: stories of three sentences and two questions.
  static void MakeStories(int stories) {
    static constexpr std::array<const char*, 3> kWho = {"Mary", "John", "Anna"};
    static constexpr std::array<const char*, 4> kWhere = {"kitchen", "garden", "hall", "office"};
    std::string text;
    for (int i = 0; i < stories; ++i) {
      for (int n = 0; n < 3; ++n) {
        text += StrCat(n + 1, " ", kWho.at(static_cast<size_t>(n)), " went to the ",
                       kWhere.at(static_cast<size_t>((i + i / 4 * n + n) % 4)), ".\n");
      }
      for (int n = 0; n < 2; ++n) {
        text += StrCat(n + 4, " Where is ", kWho.at(static_cast<size_t>(n)), "?\t",
                       kWhere.at(static_cast<size_t>((i + i / 4 * n + n) % 4)), "\t", n + 1, "\n");
      }
    }
    PlaceFile(folder_ / "stories.txt", text);
  }
};

TEST_F(NewTextCliTest, PairsBecomeATranslator) {
  MakePairs(400);
  const Outcome made =
      Moka("new translate de.txt,en.txt --out numbers --size small --parts train=0.8,val=0.1,test=0.1");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("pieces of words: "));
  for (const char* file : {"data/train.source", "data/val.target", "data/test.source", "data/source.txt", "README.md"})
    EXPECT_TRUE(fs::exists(folder_ / "numbers" / file)) << file;
  const Outcome trained = Moka("train numbers max_iter=20 test_interval=10 snapshot=20 display=10 warmup_iter=5");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("moka infer runs/numbers-0001 --text FILE"));
  EXPECT_EQ(Moka("test runs/numbers-0001").code, 0);
  EXPECT_EQ(Moka("test runs/numbers-0001 --stage test").code, 0);
  PlaceFile(folder_ / "asked.txt", "eins zwei\n");
  const Outcome said = Moka("infer runs/numbers-0001 --text asked.txt");
  EXPECT_EQ(said.code, 0) << said.err;
}

TEST_F(NewTextCliTest, StoriesBecomeANetThatAnswers) {
  MakeStories(200);
  const Outcome made = Moka("new answer stories.txt --out places --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("memories of 3 sentences\n"));
  EXPECT_THAT(Text("places/data/words.txt"), HasSubstr("kitchen\n"));
  EXPECT_TRUE(Text("places/data/val.txt").starts_with("1 Mary")) << "stories are whole";
  const Outcome trained = Moka("train places max_iter=300 test_interval=300 display=100");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(fs::exists(folder_ / "runs/places_linear-0001"));
  const Outcome tested = Moka("test runs/places-0001 --json");
  ASSERT_EQ(tested.code, 0) << tested.err;
  EXPECT_GT(Json::parse(tested.out).at("outputs").at("accuracy").get<double>(), 0.5);
  PlaceFile(folder_ / "asked.txt", "Mary went to the garden.\nWhere is Mary?\n");
  const Outcome said = Moka("infer runs/places-0001 --story asked.txt");
  EXPECT_EQ(said.code, 0) << said.err;
}

TEST_F(NewTextCliTest, PartsOfTextsAreThoseOfTheirFiles) {
  MakePairs(400);
  fs::create_directory(folder_ / "set");
  for (const char* language : {"de", "en"}) {
    const std::string all = Text(StrCat(language, ".txt"));
    PlaceFile(folder_ / "set" / StrCat("train.", language), all);
    PlaceFile(folder_ / "set" / StrCat("val.", language), all.substr(0, all.find('\n') + 1));
    PlaceFile(folder_ / "set" / StrCat("test_2016.", language, ".txt"), "neu\n");
    PlaceFile(folder_ / "set" / StrCat(language, ".txt"), "pieces\n");
  }
  const Outcome pairs = Moka("new translate set,de,en --out words --size small");
  ASSERT_EQ(pairs.code, 0) << pairs.err;
  EXPECT_THAT(pairs.out, HasSubstr("parts: train 400 pairs, val 1 pairs, test 1 pairs (as the source has them)"));
  EXPECT_THAT(pairs.err, HasSubstr("1 of 1 pairs of val are in train too"));
  EXPECT_THAT(pairs.err, HasSubstr("files whose names speak of no part: 2 (de.txt, en.txt)"));
  EXPECT_EQ(Text("words/data/test.source"), "neu\n");
  PlaceFile(folder_ / "set/test_2017.de.txt", "neu\n");
  ExpectRefused({{"new translate set,de,en --out a", 65, "are both the part test in \"de\""},
                 {"new translate set,de,fr --out a", 66, "has no text of the part train in \"fr\""},
                 {"new translate set --out a", 64, "set is a folder, expected FOLDER,LANGUAGE,LANGUAGE"}});

  MakeStories(100);
  fs::create_directory(folder_ / "qa");
  PlaceFile(folder_ / "qa/qa1_places_train.txt", Text("stories.txt"));
  PlaceFile(folder_ / "qa/qa1_places_test.txt", "1 Eva went to the hall.\n2 Where is Eva?\thall\t1\n");
  PlaceFile(folder_ / "qa/words.txt", "hall\n");
  const Outcome stories = Moka("new answer qa --out told --size small");
  ASSERT_EQ(stories.code, 0) << stories.err;
  EXPECT_THAT(stories.out,
              HasSubstr("test 1 questions (train and val by a hash of their bytes, the test as the source"));
  EXPECT_TRUE(Text("told/data/test.txt").starts_with("1 Eva"));
  EXPECT_EQ(Text("told/data/train.txt").find("Eva"), std::string::npos);
}

TEST_F(NewTextCliTest, WrongTextsAreRefused) {
  MakePairs(60);
  MakeStories(8);
  PlaceFile(folder_ / "short.txt", "one\n");
  PlaceFile(folder_ / "told.txt", "1 Mary went home.\n3 Where is Mary?\thome\t1\n");
  ExpectRefused({
      {"new translate de.txt --out a", 64, "is no pair of texts, expected two"},
      {"new translate de.txt,none.txt --out a", 66, "none.txt"},
      {"new translate de.txt,short.txt --out a", 65, "short.txt has 1 lines and de.txt more"},
      {"new translate de.txt,en.txt --out a", 65, "the part train has"},
      {"new answer stories.txt --out a", 65, "questions, expected 50 or more"},
      {"new answer told.txt --out a", 65, "told.txt:2"},
      {"new answer none.txt --out a", 66, "none.txt does not exist"},
  });
}

}  // namespace
}  // namespace moka
