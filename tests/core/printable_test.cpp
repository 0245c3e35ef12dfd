// Nothing that a terminal obeys passes, and letters of all scripts do.
#include "core/printable.h"

#include <gtest/gtest.h>

#include <random>

#include "core/text.h"
#include "core/utf8.h"

namespace moka {
namespace {

// Pieces of text that terminals obey or cannot read, and some that they show.
const std::vector<std::string>& Pieces() {
  static const std::vector<std::string> pieces = {"a",
                                                  "\"",
                                                  "\\",
                                                  "\x1b[31m",
                                                  "\a",
                                                  "\r",
                                                  "\n",
                                                  "\t",
                                                  "\x7f",
                                                  "\xc2\x9b",
                                                  "\xc2\x85",
                                                  "\xe2\x80\xae",
                                                  "\xe2\x81\xa6",
                                                  "\xe2\x80\xa8",
                                                  "\xd8\x9c",
                                                  "\xff",
                                                  "\xc3",
                                                  "\xe2\x80",
                                                  "\xed\xa0\x80",
                                                  "\xc3\xa9",
                                                  "\xe5\xb1\x82",
                                                  "\xc2\xa0",
                                                  "\xe2\x80\x8d",
                                                  "\xf0\x9f\x98\x80"};
  return pieces;
}

bool IsObeyed(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

TEST(PrintableTest, WhatItGivesIsShownAndStaysAsItIs) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += Pieces()[random() % Pieces().size()];
    const std::string shown = Printable(text);
    ASSERT_TRUE(IsUtf8(shown));
    for (size_t at = 0; at < shown.size(); at += CharacterAt(shown, at).bytes) {
      ASSERT_FALSE(IsObeyed(CharacterAt(shown, at).code)) << shown;
    }
    ASSERT_EQ(Printable(shown), shown);
    ASSERT_EQ(Printable(PrintableBut("\n\t", text)), shown) << "only the kept differ";
  }
}

TEST(PrintableTest, LettersOfAllScriptsStay) {
  for (const std::string text :
       {"caf\xc3\xa9", "\xe5\xb1\x82", "\xc2\xa0", "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9", ""}) {
    EXPECT_EQ(Printable(text), text);
  }
  EXPECT_EQ(Printable("\xe2\x80\xae"
                      "a"),
            "\\xe2\\x80\\xaea");
  EXPECT_EQ(Printable("a\xc2\x9b"
                      "31m"),
            "a\\xc2\\x9b31m");
  EXPECT_EQ(PrintableBut("\n", "a\n\tb"), "a\n\\x09b");
}

TEST(PrintableTest, JsonKeepsItsValue) {
  EXPECT_EQ(PrintableJson("{\n \"a\xc2\x9b\": \"\xe2\x80\xae\\u0007\x7f\xc3\xa9\"}"),
            "{\n \"a\\u009b\": \"\\u202e\\u0007\\u007f\xc3\xa9\"}");
}

}  // namespace
}  // namespace moka
