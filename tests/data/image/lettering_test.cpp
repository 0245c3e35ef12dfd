// Words in the scripts that people name their classes in.
#include "data/image/lettering.h"

#include <fontconfig/fontconfig.h>

#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>

#include "core/log.h"
#include "data/image/drawing.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

// Dark pixels of words that are drawn black on white.
int64_t InkOf(const Image& image) {
  return std::accumulate(image.pixels.begin(), image.pixels.end(), int64_t{0},
                         [](int64_t sum, uint8_t value) { return sum + (255 - value); }) /
         (3 * 255);
}

Image Drawn(const std::string& words) {
  const WordStyle style{.scale = 0.6, .color = {0, 0, 0}};
  const WordSize size = SizeOfWords(words, style);
  Image paper = Paper(size.width, size.height);
  DrawWords(words, 0, 0, style, paper);
  return paper;
}

template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

// The letters that no font of this machine has which can be scaled, by fontconfig itself and not by what is tested.
std::u32string WithoutFont(std::u32string_view letters) {
  const Owned<FcConfig> config(FcInitLoadConfigAndFonts(), &FcConfigDestroy);
  std::u32string missing;
  for (const char32_t letter : letters) {
    const Owned<FcCharSet> charset(FcCharSetCreate(), &FcCharSetDestroy);
    const Owned<FcPattern> pattern(FcPatternCreate(), &FcPatternDestroy);
    const Owned<FcObjectSet> wanted(FcObjectSetCreate(), &FcObjectSetDestroy);
    FcCharSetAddChar(charset.get(), letter);
    FcPatternAddCharSet(pattern.get(), FC_CHARSET, charset.get());
    FcPatternAddBool(pattern.get(), FC_SCALABLE, FcTrue);
    FcObjectSetAdd(wanted.get(), FC_FILE);
    const Owned<FcFontSet> fonts(FcFontList(config.get(), pattern.get(), wanted.get()), &FcFontSetDestroy);
    if (fonts == nullptr || fonts->nfont == 0) missing += letter;
  }
  return missing;
}

class Lettering : public DataTest {};

// The first, as one word is said of all.
TEST_F(Lettering, WhatNoFontHasIsToldOnceAndDrawnAsABox) {
  SetLogFile(At("log"));
  const Image missing = Drawn("\xF3\xB0\x80\x81");  // U+F0001, for private use
  Drawn("\xF3\xB0\x80\x82");
  SetLogFile({});
  EXPECT_GT(InkOf(missing), 10);
  const std::string log = ReadFile(At("log"));
  EXPECT_THAT(log, testing::HasSubstr("(U+F0001): a box stands for it"));
  EXPECT_THAT(log, testing::Not(testing::HasSubstr("U+F0002")));
}

TEST_F(Lettering, ScriptsHaveLettersOfTheirOwn) {
  // tools/setup installs fonts of all these; a machine without them draws boxes, which are all alike.
  const std::u32string missing = WithoutFont(U"GrüßeКошкаΓάτα猫狗ネコ고양이");
  if (!missing.empty()) GTEST_SKIP() << "no font here has " << missing.size() << " of the letters";
  std::set<std::vector<uint8_t>> pictures;
  const std::vector<std::string> words = {"Grüße", "Кошка", "Γάτα", "猫狗", "ネコ", "고양이"};
  for (const std::string& word : words) {
    const Image image = Drawn(word);
    EXPECT_GT(InkOf(image), 20) << word;
    EXPECT_TRUE(pictures.insert(image.pixels).second) << word;
  }
  EXPECT_NE(Drawn("猫狗").pixels, Drawn("狗猫").pixels);
  EXPECT_GT(SizeOfWords("猫猫猫", {}).width, SizeOfWords("猫", {}).width * 2);
}

TEST_F(Lettering, WordsOfAsciiStayHersheysAndBrokenBytesDoNoHarm) {
  const LetterSize letters = SizeOfLetters("cat", 18);
  EXPECT_GT(letters.width, 0);
  EXPECT_GT(InkOf(Drawn("cat")), 10);
  EXPECT_GT(InkOf(Drawn("c\xFF\xC3t")), 10);
  Image paper = Paper(4, 4);
  DrawLetters("猫猫猫", -10, 3, 18, {0, 0, 0}, paper);  // far beyond the paper
  EXPECT_EQ(paper.pixels.size(), 48U);
}

}  // namespace
}  // namespace moka
