// Number formats, edit distance and escapes at their edges.
#include "core/text.h"
#include "core/text_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace moka {
namespace {

TEST(TextTest, NumbersReadBackAndStayShort) {
  EXPECT_EQ(ToText(0.1), "0.1");
  EXPECT_EQ(ToText(static_cast<double>(0.1F)), "0.1");
  EXPECT_EQ(ToText(1e-5), "1e-05");
  EXPECT_EQ(ToText(std::nan("")), "nan");
  EXPECT_EQ(ToText(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(std::stod(ToText(1.0 / 3.0)), 1.0 / 3.0);
}

TEST(TextTest, StrCatJoinsStringsAndNumbers) {
  EXPECT_EQ(StrCat("a", 1, 'b', 2.5, std::string("c")), "a1b2.5c");
  EXPECT_EQ(Join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(Split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(Trim(" \t x y \r\n"), "x y");
}

TEST(TextTest, EditDistanceCountsSwapsOnce) {
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("conovlution", "Convolution"), 1);
  EXPECT_EQ(EditDistance("", "abc"), 3);
}

TEST(TextTest, NearestNamesStayWithinAThird) {
  const std::vector<std::string> layers = {"Convolution", "Deconvolution", "Pooling", "ReLU", "PReLU", "ELU"};
  EXPECT_EQ(NearestNames("Convolutoin", layers), (std::vector<std::string>{"Convolution"}));
  EXPECT_EQ(NearestNames("relu", layers), (std::vector<std::string>{"ReLU"}));
  EXPECT_TRUE(NearestNames("Transformer", layers).empty());
  EXPECT_EQ(DidYouMean("Poolin", layers), "did you mean \"Pooling\"?");
  EXPECT_EQ(NearestNames("aReLU", {"bReLU", "cReLU", "dReLU", "eReLU"}).size(), 3U);
  EXPECT_TRUE(NearestNames(std::string(1000, 'x'), {std::string(1000, 'x')}).empty());
}

TEST(TextTest, PrintableEscapesControlAndBrokenBytes) {
  EXPECT_EQ(Printable("a\nb\x1b[0m"), "a\\x0ab\\x1b[0m");
  EXPECT_EQ(Printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(Printable("\xc3"), "\\xc3");
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
}

TEST(TextTest, ALongListIsCutAndSaysSo) {
  EXPECT_EQ(SomeOf({}, 2), "");
  EXPECT_EQ(SomeOf({"a", "b"}, 2), "a, b");
  EXPECT_EQ(SomeOf({"a", "b", "c", "d"}, 3), "a, b, c and 1 more");
  EXPECT_EQ(SomeOf({"a", "b", "c", "d"}, 2, "; "), "a; b and 2 more");
}

TEST(TextTest, BytesAreReadable) {
  EXPECT_EQ(BytesText(12), "12 bytes");
  EXPECT_EQ(BytesText(1536), "1.50 KiB");
  EXPECT_EQ(BytesText(int64_t{100} << 20), "100.0 MiB");
}

TEST(TextTest, StableHashIsFnv) {
  EXPECT_EQ(StableHash(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(StableHash("a"), 0xaf63dc4c8601ec8cULL);
}

}  // namespace
}  // namespace moka
