// Words of lines, lower case and vocabularies.
#include "data/text/tokens.h"

#include <zlib.h>

#include "core/text.h"
#include "core/utf8.h"
#include "data/text/letters.h"
#include "data/text/vocabulary.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Words(std::string_view line, TextTokens tokens = WORDS) {
  std::vector<std::string> words = {"left over"};
  SplitWords(line, tokens, words);
  return words;
}

// Hashes of letters.py, which has Python's tables.
TEST(Letters, LowerCaseAndMarksAreUnicodes) {
  std::string lower;
  std::string marks;
  for (const auto& [begin, end] : {std::pair<char32_t, char32_t>{0x21, 0x590}, {0x1E00, 0x1F00}}) {
    for (char32_t c = begin; c < end; ++c) {
      AppendCharacter(LowerCase(c), lower);
      if (c < 0x590 && IsMark(c)) AppendCharacter(c, marks);
    }
  }
  EXPECT_EQ(StableHash(lower), 0x1d20489d1987ddc9U);
  EXPECT_EQ(StableHash(marks), 0x44556cc1db4f5375U);
}

TEST(Tokens, WordsAreLowerCasedAndMarksStandAlone) {
  EXPECT_THAT(Words("Zwei junge weiße MÄNNER sind im Freien."),
              ElementsAre("zwei", "junge", "weiße", "männer", "sind", "im", "freien", "."));
  EXPECT_THAT(Words("T-Shirt, man's \"x_1\"…"),
              ElementsAre("t", "-", "shirt", ",", "man", "'", "s", "\"", "x_1", "\"", "…"));
  EXPECT_THAT(Words("„Öl“ –\t5\u00A0€"), ElementsAre("„", "öl", "“", "–", "5", "€"));
  EXPECT_THAT(Words("ÀÉÎÕÜ ŁÓDŹ ΑΘΉΝΑ МОСКВА ẞ"), ElementsAre("àéîõü", "łódź", "αθήνα", "москва", "ß"));
  EXPECT_THAT(Words(" \t\u3000"), ElementsAre());
}

TEST(Tokens, BlanksKeepsWordsAsTheyAre) {
  EXPECT_THAT(Words("  Ab-C, d.\u2003Ü ", BLANKS), ElementsAre("Ab-C,", "d.", "Ü"));
  EXPECT_THAT(Words("", BLANKS), ElementsAre());
}

TEST(Tokens, BytesThatAreNoUtf8AreNamed) {
  for (const TextTokens tokens : {WORDS, BLANKS}) {
    EXPECT_THAT(ErrorOf([&] {
                  Words(
                      "gr\xFC"
                      "n",
                      tokens);
                }),
                HasSubstr("byte 3 of the line is not UTF-8: \"gr\\xfcn\""));
  }
}

class TextFiles : public DataTest {
 protected:
  std::vector<std::string> Lines(const std::string& bytes) const {
    Write("lines.txt", bytes);
    std::vector<std::string> all;
    TextLines lines(At("lines.txt"));
    while (lines.Next()) all.push_back(lines.line());
    EXPECT_EQ(lines.number(), static_cast<int>(all.size()));
    return all;
  }
  void WriteGz(const std::string& name, const std::string& text) const {
    const gzFile file = gzopen(At(name).c_str(), "wb");
    ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    gzclose(file);
  }
  VocabularyReport Make(const VocabularyOptions& options = {}) const {
    return MakeVocabulary({At("a.txt"), At("b.txt.gz")}, At("words.txt"), options);
  }
  std::string FaultOf(const std::string& vocabulary) const {
    Write("bad.txt", vocabulary);
    return ErrorOf([&] { const Vocabulary read(At("bad.txt")); });
  }
};

TEST_F(TextFiles, LinesEndAsInAnySystem) {
  EXPECT_THAT(Lines("a\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Lines("\xEF\xBB\xBF"
                    "a\r\n\nb"),
              ElementsAre("a", "", "b"));
  EXPECT_THAT(Lines(""), ElementsAre());
  EXPECT_THAT(Lines("\n"), ElementsAre(""));
  // Lines over the ends of the buffer's 65,536 bytes.
  for (const size_t length : {65534U, 65535U, 65536U, 65537U, 200000U}) {
    const std::string line(length, 'x');
    EXPECT_THAT(Lines(line + "\n" + line + "\ny"), ElementsAre(line, line, "y")) << length;
  }
  EXPECT_THAT(ErrorOf([&] { Lines("a\n" + std::string(1100000, 'x')); }),
              HasSubstr("lines.txt:2: the line is longer than 1048576 bytes"));
}

TEST_F(TextFiles, AVocabularyHasTheMarksThenWordsByCountThenByBytes) {
  Write("a.txt", "The dog. The Dog!\nÜber dog\n");
  WriteGz("b.txt.gz", "über über b a <s>\n");
  VocabularyReport report = Make();
  // 3 dog, 3 über, 2 the, one of each other.
  EXPECT_EQ(ReadFile(At("words.txt")), "<pad>\n<s>\n</s>\n<unk>\ndog\nüber\nthe\n!\n.\n<\n>\na\nb\ns\n");
  EXPECT_EQ(report.lines, 3);
  EXPECT_EQ(report.tokens, 15);
  EXPECT_EQ(report.types, 10);
  EXPECT_EQ(report.kept, 10);
  EXPECT_EQ(report.known, 15);
  report = Make({.min_count = 2});
  EXPECT_EQ(ReadFile(At("words.txt")), "<pad>\n<s>\n</s>\n<unk>\ndog\nüber\nthe\n");
  EXPECT_EQ(report.known, 8);
  Make({.most = 1});
  EXPECT_EQ(ReadFile(At("words.txt")), "<pad>\n<s>\n</s>\n<unk>\ndog\n");
  Make({.tokens = BLANKS, .min_count = 2});  // words that are spelt like a mark are not listed twice
  EXPECT_EQ(ReadFile(At("words.txt")), "<pad>\n<s>\n</s>\n<unk>\nThe\nüber\n");
  const Vocabulary words(At("words.txt"));
  EXPECT_EQ(words.size(), 6);
  EXPECT_EQ(words.NumberOf("The"), 4);
  EXPECT_EQ(words.NumberOf("über"), 5);
  for (const std::string_view unknown : {"the", "<pad>", "<s>", "</s>", "<unk>", ""}) {
    EXPECT_EQ(words.NumberOf(unknown), kUnknownWord) << unknown;
  }
}

TEST_F(TextFiles, AVocabularyOfStoriesHasTheirWholeAnswers) {
  Write("qa.txt", "1 Mary got the Milk.\n2 What is Mary carrying? \tmilk,football\t1\n1 Mary slept.\n");
  MakeVocabulary({At("qa.txt")}, At("words.txt"), {.are_stories = true});
  EXPECT_EQ(ReadFile(At("words.txt")),
            "<pad>\n<s>\n</s>\n<unk>\nmary\ncarrying\ngot\nis\nmilk\nmilk,football\nslept\nthe\nwhat\n");
}

TEST_F(TextFiles, WideTextIsNamed) {
  using std::string_literals::operator""s;
  for (const std::string& bytes : {"\xFF\xFEo\0n\0e\0"s, "\xFE\xFF\0o\0n\0e"s, "o\0n\0e\0"s}) {
    EXPECT_THAT(ErrorOf([&] { Lines(bytes); }), HasSubstr("lines.txt:1: the text is UTF-16, expected UTF-8"));
  }
}

TEST_F(TextFiles, FaultsNameTheLine) {
  Write("a.txt",
        "good\nb\xE4"
        "d\n");
  WriteGz("b.txt.gz", "x\n");
  EXPECT_THAT(ErrorOf([&] { Make(); }), HasSubstr("a.txt:2: byte 2 of the line is not UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(At("words.txt")));
  Write("a.txt", "\n \n");
  EXPECT_THAT(ErrorOf([&] { MakeVocabulary({At("a.txt")}, At("words.txt"), {}); }), HasSubstr("a.txt: no words"));
  EXPECT_THAT(ErrorOf([&] { MakeVocabulary({At("none.txt")}, At("words.txt"), {}); }), HasSubstr("none.txt"));
  const std::string marks = "<pad>\n<s>\n</s>\n<unk>\n";
  EXPECT_THAT(FaultOf(marks + "a\nb\na\n"), HasSubstr("bad.txt:7: \"a\" stands in line 5 already"));
  EXPECT_THAT(FaultOf(marks + "a\n\nb\n"), HasSubstr("bad.txt:6: expected a word, found \"\""));
  EXPECT_THAT(FaultOf(marks + "a b\n"), HasSubstr("bad.txt:5: expected a word, found \"a b\""));
  EXPECT_THAT(FaultOf(marks + "<s>\n"), HasSubstr("bad.txt:5: expected a word, found \"<s>\""));
  EXPECT_THAT(FaultOf(marks + "\xFF\n"), HasSubstr("bad.txt:5: byte 1 of the line is not UTF-8"));
  EXPECT_THAT(FaultOf("the\na\n"), HasSubstr("bad.txt:1: expected \"<pad>\", found \"the\""));
  EXPECT_THAT(FaultOf("<pad>\n<s>\n"), HasSubstr("bad.txt: 2 lines; a vocabulary begins with the marks"));
  EXPECT_THAT(ErrorOf([&] { const Vocabulary read(At("none.txt")); }), HasSubstr("none.txt"));
}

}  // namespace
}  // namespace moka
