// Pieces of words: what is learned, how words are cut by it, and that lines come back.
#include "data/text/pieces.h"

#include <map>

#include "core/rng.h"
#include "core/text.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// The example of Sennrich et al.
std::vector<CountedPart> LowAndNew() { return {{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}}; }

std::vector<std::string> Merges(const std::vector<CountedPart>& parts, int64_t most, size_t letters) {
  const std::vector<std::string> pieces = LearnPieces(parts, most, 1);
  return {pieces.begin() + static_cast<std::ptrdiff_t>(std::min(letters, pieces.size())), pieces.end()};
}

// Plain byte pair encoding: all pairs are counted anew before each merge.
std::vector<std::string> PlainMerges(const std::vector<CountedPart>& parts, size_t most) {
  using Pieces = std::vector<std::string>;
  std::vector<std::pair<Pieces, int64_t>> words;
  for (const CountedPart& part : parts) {
    Pieces letters;
    for (const char c : part.text) letters.push_back(letters.empty() ? std::string{c} : StrCat("##", c));
    words.emplace_back(letters, part.count);
  }
  Pieces found;
  while (found.size() < most) {
    std::map<std::pair<std::string, std::string>, int64_t> counts;  // in the order that ties are taken in
    for (const auto& [pieces, count] : words) {
      for (size_t i = 1; i < pieces.size(); ++i) counts[{pieces[i - 1], pieces[i]}] += count;
    }
    const auto best = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
    if (best == counts.end() || best->second < 2) return found;
    const auto& [left, right] = best->first;
    const std::string merged = left + right.substr(2);
    if (std::ranges::find(found, merged) == found.end()) found.push_back(merged);
    for (auto& [pieces, count] : words) {
      Pieces next;
      for (size_t i = 0; i < pieces.size(); ++i) {
        const bool is_pair = i + 1 < pieces.size() && pieces[i] == left && pieces[i + 1] == right;
        next.push_back(is_pair ? merged : pieces[i]);
        i += is_pair ? 1 : 0;
      }
      pieces = next;
    }
  }
  return found;
}

TEST(Pieces, TheMostFrequentPairsAreJoinedOneAfterAnother) {
  const std::vector<std::string> letters = LearnPieces(LowAndNew(), 20, 1);
  EXPECT_THAT(letters, ElementsAre("d", "##d", "e", "##e", "i", "##i", "l", "##l", "n", "##n", "o", "##o", "r", "##r",
                                   "s", "##s", "t", "##t", "w", "##w"));
  // 9, 9, 7, 7, 6, 6, 6, 3, 3, 3, 2, 2 times; of equal counts the pair that stands first.
  EXPECT_THAT(Merges(LowAndNew(), 1000, 20), ElementsAre("##es", "##est", "##ow", "low", "##ew", "##ewest", "newest",
                                                         "##dest", "##idest", "widest", "##er", "lower"));
  EXPECT_THAT(Merges(LowAndNew(), 23, 20), ElementsAre("##es", "##est", "##ow"));
}

TEST(Pieces, MergesAreThoseOfCountingAllPairsEachTime) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    RandomStream random(seed, StableHash("pieces"));
    const size_t letters = 2 + random.Below(3);
    std::map<std::string, int64_t> counted;
    for (int i = 0; i < 60; ++i) {
      std::string word;
      for (uint64_t k = 1 + random.Below(9); k > 0; --k) word += static_cast<char>('a' + random.Below(letters));
      counted[word] += static_cast<int64_t>(1 + random.Below(5));
    }
    std::vector<CountedPart> parts;
    for (const auto& [word, count] : counted) parts.push_back({word, count});
    for (const size_t more : {5U, 40U, 1000U}) {
      EXPECT_EQ(Merges(parts, static_cast<int64_t>(2 * letters + more), 2 * letters), PlainMerges(parts, more))
          << seed << " " << more;
    }
  }
}

TEST(Pieces, WhatIsTooLongForAWordIsNotLearnedFrom) {
  std::string run(1001, 'a');
  EXPECT_EQ(LearnPieces({{run, 3}, {"bb", 2}}, 20, 1), LearnPieces({{"a", 3}, {"bb", 2}}, 20, 1));
  run.pop_back();
  EXPECT_THAT(LearnPieces({{run, 1}}, 20, 1), testing::Contains("##aaaa"));
}

TEST(Pieces, RareLettersAreNoPiecesAndJoinNone) {
  const std::vector<CountedPart> parts = {{"ab", 5}, {"abq", 2}, {"##b", 1}};
  EXPECT_THAT(LearnPieces(parts, 100, 3), ElementsAre("a", "##a", "b", "##b", "ab"));
  EXPECT_THAT(LearnPieces(parts, 100, 1), ElementsAre("a", "##a", "b", "##b", "q", "##q", "ab", "abq"));
}

TEST(Pieces, ThereMustBeRoomForTheLetters) {
  EXPECT_EQ(LearnPieces(LowAndNew(), 20, 1).size(), 20U);
  EXPECT_THAT(ErrorOf([] { LearnPieces(LowAndNew(), 19, 1); }),
              StartsWith("the texts have 10 letters, each of which is a piece with and without ##: more than 19 "
                         "pieces; ask for more pieces, or leave out rare letters (--min-count)"));
}

class PieceFiles : public DataTest {
 protected:
  static constexpr std::string_view kMarks = "<pad>\n<s>\n</s>\n<unk>\n";
  std::vector<std::string> Cut(std::string_view part, const std::string& pieces) const {
    Write("pieces.txt", StrCat(kMarks, pieces));
    const Vocabulary vocabulary(At("pieces.txt"));
    std::vector<int32_t> numbers;
    AppendPieces(part, vocabulary, numbers);
    std::vector<std::string> words;
    for (const int32_t number : numbers) words.push_back(vocabulary.WordOf(number));
    return words;
  }
};

TEST_F(PieceFiles, TheLongestPieceIsTakenAtEachPlace) {
  const std::string pieces = "l\no\nw\n##o\n##w\n##e\n##s\n##t\nlow\n##est\n##es\nü\n##ü\n##über\n";
  EXPECT_THAT(Cut("lowest", pieces), ElementsAre("low", "##est"));
  EXPECT_THAT(Cut("lowes", pieces), ElementsAre("low", "##es"));
  EXPECT_THAT(Cut("wow", pieces), ElementsAre("w", "##o", "##w"));
  EXPECT_THAT(Cut("##est", pieces), ElementsAre("##est"));
  EXPECT_THAT(Cut("##low", pieces), ElementsAre("<unk>", "##o", "##w"));
  // A letter of two bytes is one unknown, and the pieces around it are found.
  EXPECT_THAT(Cut("löwüt", pieces), ElementsAre("l", "<unk>", "##w", "##ü", "##t"));
  EXPECT_THAT(Cut("oüber", pieces), ElementsAre("o", "##über"));
  EXPECT_THAT(Cut("x", ""), ElementsAre("<unk>"));
  EXPECT_THAT(Cut("", pieces), ElementsAre());
}

TEST_F(PieceFiles, LinesComeBackInLowerCaseWithSingleBlanks) {
  const std::string text =
      "Ein Mann mit T-Shirts (weiß), 3,5 km weit.\n\"Das\" #1 ##2 ist  Über–\tmut…\nA man's dog... isn't 'here' ! \n"
      "МОСКВА, Ω, łódź; a_b x@y.org 100%\n";
  Write("text.txt", text);
  for (const int64_t pieces : {200, 160, 400}) {
    const VocabularyReport report =
        MakeVocabulary({At("text.txt")}, At("words.txt"), {.tokens = PIECES, .pieces = pieces});
    const Vocabulary vocabulary(At("words.txt"));
    EXPECT_LE(vocabulary.size(), pieces);
    EXPECT_EQ(vocabulary.size(), report.kept + 4);
    EXPECT_EQ(report.known, report.tokens);
    EXPECT_EQ(report.lines, 4);
    const auto back = [&](std::string_view line) {
      std::vector<int32_t> numbers;
      NumberWords(line, PIECES, vocabulary, numbers);
      return JoinWords(numbers, PIECES, vocabulary);
    };
    EXPECT_EQ(back("Ein Mann mit T-Shirts (weiß), 3,5 km weit."), "ein mann mit t-shirts (weiß), 3,5 km weit.");
    EXPECT_EQ(back("\"Das\" #1 ##2 ist  Über–\tmut… "), "\"das\" #1 ##2 ist über– mut…");
    EXPECT_EQ(back(" A man's dog... isn't 'here' !"), "a man's dog... isn't 'here' !");
    EXPECT_EQ(back("МОСКВА, Ω, łódź; a_b x@y.org 100%"), "москва, ω, łódź; a_b x@y.org 100%");
    // Words that the text has not, of letters that it has.
    EXPECT_EQ(back("Wißent-Shirt@(Ostern"), "wißent-shirt@(ostern");
    EXPECT_EQ(back("東a"), "<unk>a");
  }
}

TEST_F(PieceFiles, TheVocabularyIsOrderedByUse) {
  Write("text.txt", "low low low low low lower lower newest newest newest newest newest newest widest widest widest\n");
  const VocabularyReport report = MakeVocabulary({At("text.txt")}, At("words.txt"), {.tokens = PIECES, .pieces = 40});
  // All words are pieces by now; their letters are used no more.
  EXPECT_THAT(ReadFile(At("words.txt")), StartsWith(StrCat(kMarks, "newest\nlow\nwidest\nlower\n##d\n##dest\n##e\n")));
  EXPECT_EQ(report.kept, 32);
  EXPECT_EQ(report.tokens, 16);
  EXPECT_EQ(report.known, 16);
  MakeVocabulary({At("text.txt")}, At("words.txt"), {.tokens = PIECES, .pieces = 26});
  // ##es and ##est beside the letters: 13, 9, 8, 7 and 7 times.
  EXPECT_THAT(ReadFile(At("words.txt")), StartsWith(StrCat(kMarks, "##w\n##est\n##e\n##o\nl\n")));
}

TEST_F(PieceFiles, FaultsOfTexts) {
  Write("text.txt", " \n\n");
  EXPECT_THAT(ErrorOf([&] { MakeVocabulary({At("text.txt")}, At("words.txt"), {.tokens = PIECES, .pieces = 40}); }),
              HasSubstr("the texts have no words"));
  EXPECT_FALSE(std::filesystem::exists(At("words.txt")));
  Write("text.txt", "abc\nd\xFF\n");
  EXPECT_THAT(ErrorOf([&] { MakeVocabulary({At("text.txt")}, At("words.txt"), {.tokens = PIECES, .pieces = 40}); }),
              HasSubstr("text.txt:2: byte 2 of the line is not UTF-8"));
  Write("text.txt", "abc\n");
  EXPECT_THAT(ErrorOf([&] { MakeVocabulary({At("text.txt")}, At("words.txt"), {.tokens = PIECES, .pieces = 9}); }),
              HasSubstr("3 letters, each of which is a piece with and without ##: more than 5 pieces"));
}

}  // namespace
}  // namespace moka
