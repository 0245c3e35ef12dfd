// Stories with questions as people write them.
#include "data/text/questions.h"

#include <gmock/gmock.h>

#include "tests/data/text/text_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Questions : public TextLayerTest {
 protected:
  std::vector<AskedQuestion> Read(const std::string& text) {
    Write("story.txt", text);
    return ReadQuestions(TextLines(folder_ / "story.txt"));
  }
  std::string FaultOf(const std::string& text) {
    return ErrorOf([&] { Read(text); });
  }
  static std::vector<std::string> StoryOf(const AskedQuestion& asked) {
    std::vector<std::string> texts;
    for (const StorySentence& sentence : asked.story) texts.push_back(sentence.text);
    return texts;
  }
};

TEST_F(Questions, PlainLines) {
  const auto asked = Read("Mary went home.\nJohn slept.\r\nWhere is Mary?\nMary's dog slept.\n Who slept? \n\nWhy?\n");
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_THAT(StoryOf(asked[0]), ElementsAre("Mary went home.", "John slept."));
  EXPECT_EQ(asked[0].question.text, "Where is Mary?");
  EXPECT_THAT(asked[0].question.words, ElementsAre("where", "is", "mary"));
  EXPECT_EQ(asked[0].line, 3);
  EXPECT_FALSE(asked[0].answer);
  EXPECT_THAT(StoryOf(asked[1]), ElementsAre("Mary went home.", "John slept.", "Mary's dog slept."));
  EXPECT_THAT(StoryOf(asked[2]), ElementsAre());  // a blank line ends a story
}

TEST_F(Questions, LinesOfBabisFormWithAndWithoutAnswers) {
  const auto asked = Read(
      "1 Mary went home.\n2 Where is Mary? \tHome\t1\n3 3 dogs slept.\n4 Who slept?\n1 John slept.\n2 Go home\tno\n");
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked[0].answer, "home");
  EXPECT_EQ(asked[0].question.text, "Where is Mary?");
  EXPECT_THAT(StoryOf(asked[1]), ElementsAre("Mary went home.", "3 dogs slept."));
  EXPECT_FALSE(asked[1].answer);
  EXPECT_THAT(StoryOf(asked[2]), ElementsAre("John slept."));
  EXPECT_EQ(asked[2].answer, "no");
  EXPECT_EQ(asked[2].line, 6);
}

TEST_F(Questions, ANumberInAPlainTextIsAWord) {
  const auto asked = Read("3 dogs slept.\nHow many slept?\n");
  EXPECT_THAT(asked.at(0).story.at(0).words, ElementsAre("3", "dogs", "slept"));
}

TEST_F(Questions, Mistakes) {
  EXPECT_THAT(FaultOf("Mary went home.\n"), HasSubstr("story.txt: no question"));
  EXPECT_THAT(FaultOf(""), HasSubstr("story.txt: no question"));
  EXPECT_THAT(FaultOf("Mary went home.\n...\n"), HasSubstr("story.txt:2: the sentence has no words"));
  EXPECT_THAT(FaultOf("1 Mary went home.\nWhere is Mary?\n"),
              HasSubstr("story.txt:2: expected \"NUMBER SENTENCE\", found \"Where is Mary?\""));
  EXPECT_THAT(FaultOf("Mary \xff went.\nWho?\n"), HasSubstr("story.txt:1"));
}

}  // namespace
}  // namespace moka
