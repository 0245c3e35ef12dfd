// Text that is safe in markup, and bytes as Base64 by RFC 4648's own examples.
#include "core/markup.h"

#include <gtest/gtest.h>

namespace moka {
namespace {

TEST(MarkupTest, WhatMeansSomethingIsEscaped) {
  EXPECT_EQ(MarkupText("<script>alert('x')</script>"), "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
  EXPECT_EQ(MarkupText("a & \"b\""), "a &amp; &quot;b&quot;");
  EXPECT_EQ(MarkupText("&amp;"), "&amp;amp;");
  EXPECT_EQ(MarkupText("Äpfel"), "Äpfel");
  EXPECT_EQ(MarkupText(std::string_view("a\0b\x1b", 4)), "a\\x00b\\x1b");
  EXPECT_EQ(MarkupText("\xff"), "\\xff");
}

TEST(MarkupTest, Base64IsThatOfTheStandard) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64("foob"), "Zm9vYg==");
  EXPECT_EQ(Base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace moka
