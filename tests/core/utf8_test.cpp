// Every code point reads back, and no other sequence of bytes is one.
#include "core/utf8.h"

#include <gtest/gtest.h>

#include "core/text.h"

namespace moka {
namespace {

TEST(Utf8, EveryCharacterReadsBackAndNothingElseIsOne) {
  int64_t characters = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text = "x";
    AppendCharacter(c, text);
    const Character read = CharacterAt(text, 1);
    ASSERT_EQ(read.code, c);
    ASSERT_EQ(read.bytes, text.size() - 1);
    ++characters;
  }
  EXPECT_EQ(characters, 0x10FFFF + 1 - 2048);
  for (const std::string_view bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(CharacterAt(bad, 0).bytes, 0U) << Printable(bad);
    EXPECT_TRUE(Printable(bad).starts_with("\\x")) << "one reading of characters, for logs as well";
  }
}

}  // namespace
}  // namespace moka
