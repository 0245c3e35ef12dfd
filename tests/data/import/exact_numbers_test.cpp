// Numbers on their way from a file into a net's floats: the same value, or a word with its place.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/exact_float.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/files/list_text.h"
#include "data/files/text_table.h"
#include "data/import/import.h"
#include "tests/data/picture_fixture.h"

namespace moka {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Checked against a wider type's own arithmetic: random widths reach every magnitude.
TEST(ExactNumbers, WholeOnesAreExactWhenAFloatGivesThemBack) {
  RandomStream random(1, 2);
  int inexact = 0;
  for (int i = 0; i < 200000; ++i) {
    const uint64_t bits = uint64_t{random.Bits()} << 32U | random.Bits();
    const auto value = static_cast<int64_t>(bits) >> (i % 63);
    const bool is_same = static_cast<long double>(static_cast<float>(value)) == static_cast<long double>(value);
    ASSERT_EQ(IsExactFloat(value), is_same) << value;
    const uint64_t positive = bits >> static_cast<unsigned>(i % 64);
    ASSERT_EQ(IsExactFloat(positive),
              static_cast<long double>(static_cast<float>(positive)) == static_cast<long double>(positive));
    inexact += is_same ? 0 : 1;
  }
  EXPECT_GT(inexact, 1000);
  EXPECT_TRUE(IsExactFloat(std::numeric_limits<int64_t>::min()));
  EXPECT_FALSE(IsExactFloat(std::numeric_limits<int64_t>::max()));
  EXPECT_TRUE(IsExactFloat(int64_t{16777216}));
  EXPECT_FALSE(IsExactFloat(int64_t{-16777217}));
  EXPECT_TRUE(IsExactFloat(0.5));
  EXPECT_FALSE(IsExactFloat(0.1));
  EXPECT_TRUE(IsExactFloat(std::nan("")));
  EXPECT_FALSE(IsExactFloat(1e300));
  EXPECT_TRUE(IsBeyondFloat(1e39));
  EXPECT_FALSE(IsBeyondFloat(std::numeric_limits<double>::infinity()));
}

TEST(ExactNumbers, TextsAreWholeNumbersThatStayOrReals) {
  EXPECT_EQ(FloatOfText("16777216"), 16777216.0F);
  EXPECT_EQ(FloatOfText("-0.1"), -0.1F);
  EXPECT_EQ(FloatOfText("1e3"), 1000.0F);
  for (const char* text : {"16777217", "1e39", "1e400", "nan", "inf", "0x10", "1,5", "1.5f", "", "+", "1 2"}) {
    EXPECT_EQ(FloatOfText(text), std::nullopt) << text;
  }
}

TEST(ExactNumbers, DigitsThatAFloatDropsAreSeen) {
  EXPECT_FALSE(IsRoundedToFloat("0.1", 0.1));
  EXPECT_FALSE(IsRoundedToFloat("0.0000001234567", 0.0000001234567));
  EXPECT_TRUE(IsRoundedToFloat("3.14159265", 3.14159265));
  EXPECT_TRUE(IsRoundedToFloat("1699999999", 1699999999));
  EXPECT_FALSE(IsRoundedToFloat("0.250000000000", 0.25));
}

class ExactData : public PictureLayers {
 protected:
  ExactData() {
    Image image;
    image.Resize(2, 2, 3);
    Write("a.png", EncodePng(image));
    Write("my photo.png", EncodePng(image));
    Write("a \"b\".png", EncodePng(image));
  }
  std::string ListError(const std::string& list) const {
    Write("list.txt", list);
    return OpenError("ImageData", kFields);
  }
  std::vector<float> Labels(const std::string& list, int batch = 1) const {
    Write("list.txt", list);
    return Next(*Open("ImageData",
                      StrCat("top: 'a' top: 'b' image_data_param { source: 'list.txt' batch_size: ", batch, " }")))[1];
  }
  static constexpr const char* kFields = "top: 'a' top: 'b' image_data_param { source: 'list.txt' }";
};

TEST_F(ExactData, LabelsThatFloatsChangeAreRefusedWithTheirPlace) {
  EXPECT_THAT(Labels("a.png 16777216\na.png -1\n", 2), testing::ElementsAre(16777216, -1));
  EXPECT_THAT(ListError("a.png 1\na.png 16777217\n"),
              AllOf(HasSubstr("list.txt:2"), HasSubstr("the label is 16777217, which a net's floats cannot hold")));
  EXPECT_THAT(ListError("a.png 99999999999\n"), HasSubstr("expected \"path label\" with a whole number as label"));
  EXPECT_THAT(ErrorOf([&] { ImportList(At("list.txt"), folder_, At("db"), {}); }), HasSubstr("list.txt:1"));
  Write("list.txt", "a.png 16777217\n");
  EXPECT_THAT(ErrorOf([&] { ImportList(At("list.txt"), folder_, At("db"), {}); }), HasSubstr("list.txt:1"));
  WriteDatabase(At("labels"), {RawDatum(1, 2, 2, 0, 3), RawDatum(1, 2, 2, 0, 16777217)});
  const auto pipeline = Open("Data", "top: 'a' top: 'b' data_param { source: 'labels' backend: LMDB batch_size: 2 }");
  EXPECT_THAT(ErrorOf([&] { Next(*pipeline); }), AllOf(HasSubstr("(index 1)"), HasSubstr("the label is 16777217")));
}

TEST_F(ExactData, ListsOfEveryWriterAreRead) {
  for (const char* list : {"a.png 7\n", "a.png 7", "a.png 7\r\n", "a.png 7\r",
                           "\xEF\xBB\xBF"
                           "a.png 7\n",
                           "\n\n  a.png\t7  \n\n", "my photo.png 7\n", "\"my photo.png\" 7\n",
                           "\"a \"\"b\"\".png\" 7\n", "a.png     7 \t\n"}) {
    EXPECT_THAT(Labels(list), testing::ElementsAre(7)) << Printable(list);
  }
  EXPECT_THAT(Labels("a.png 1\ra.png 2\r", 2), testing::ElementsAre(1, 2)) << "ends of lines as of old";
  EXPECT_THAT(ListError(std::string("a\0.\0p\0", 6)), AllOf(HasSubstr("list.txt:1"), HasSubstr("the text is UTF-16")));
  EXPECT_THAT(ListError("\xFF\xFE"
                        "a\n"),
              HasSubstr("the text is UTF-16, expected UTF-8"));
  EXPECT_THAT(ListError(std::string("a.png 1\nb\0 2\n", 12)), AllOf(HasSubstr("list.txt:2"), HasSubstr("zero byte")));
  EXPECT_THAT(ListError("a.png 1\ngr\xfcn.png 2\n"),
              AllOf(HasSubstr("list.txt:2"), HasSubstr("\"gr\\xfcn.png 2\" is no UTF-8")));
  EXPECT_THAT(ListError("a.png,1\n"), HasSubstr("a blank or a tab parts the two, not a comma"));
  EXPECT_THAT(ListError("a.png 1\nb.png\n"), HasSubstr("list.txt:2"));
  EXPECT_THAT(ListError("a.png 1.5\n"), HasSubstr("with a whole number as label"));
  EXPECT_THAT(ListError("# a comment\n"), HasSubstr("list.txt:1"));
}

TEST_F(ExactData, PicturesThatAListHasTwiceAreTold) {
  const auto told = [&](const std::string& list) {
    SetLogFile(At("log"));
    Labels(list);
    SetLogFile({});
    const std::string log = ReadFile(At("log"));
    std::filesystem::remove(At("log"));
    return log;
  };
  EXPECT_THAT(told("a.png 1\nmy photo.png 1\n"), testing::Not(HasSubstr("again")));
  EXPECT_THAT(told("a.png 1\na.png 1\n"), HasSubstr("1 line names a picture again, 0 of them with another label"));
  EXPECT_THAT(
      told("a.png 1\nmy photo.png 2\na.png 1\na.png 3\n"),
      HasSubstr("2 lines name a picture again, 1 of them with another label: \"a.png\" in lines 1 (label 1) and 4 "
                "(label 3)"));
}

TEST_F(ExactData, PicturesThatAListOfSeveralLabelsHasTwiceAreTold) {
  Write("list.txt", "a.png 1 2\na.png 1 2\na.png 1 2.5\n");
  SetLogFile(At("log"));
  Open("MultiLabelImageData",
       "top: 'a' top: 'b' multi_label_image_data_param { source: 'list.txt' label_num: 2 batch_size: 1 }");
  SetLogFile({});
  EXPECT_THAT(ReadFile(At("log")),
              HasSubstr("2 lines name a picture again, 1 of them with another label: \"a.png\" in lines 1 (labels 1 2) "
                        "and 3 (labels 1 2.5)"));
}

TEST_F(ExactData, TablesKeepQuotesSeparatorsAndSayWhatTheyCannot) {
  const auto fields = [&](const std::string& text) {
    Write("t.csv", text);
    return ReadTable(At("t.csv")).rows;
  };
  using Rows = std::vector<std::vector<std::string>>;
  EXPECT_EQ(fields("f,n\n\"a \"\"b\"\", c\",1\n"), (Rows{{"a \"b\", c", "1"}}));
  EXPECT_EQ(fields("f,n\n5\" disk , 1\n"), (Rows{{"5\" disk", "1"}}));
  EXPECT_EQ(fields("\xEF\xBB\xBF"
                   "f;n\r\n\r\n x ; 1 \r\n"),
            (Rows{{"x", "1"}}));
  EXPECT_EQ(fields("f\tn\nNew York.png\t1"), (Rows{{"New York.png", "1"}}));
  EXPECT_EQ(fields("1\t2\n3\t\t4\n"), (Rows{{"1", "2"}, {"3", "4"}}))
      << "tabs that make columns stand below each other";
  EXPECT_EQ(fields("f\tn\tm\n3\t\t5\n4\t1\t\n\t1\t2\n"), (Rows{{"3", "", "5"}, {"4", "1", ""}, {"", "1", "2"}}))
      << "tabs that end cells, some of them empty";
  EXPECT_EQ(fields("sep=;\nf;n\na,b;1\n"), (Rows{{"a,b", "1"}}));
  EXPECT_EQ(fields("sep=|\na b|1\n"), (Rows{{"a b", "1"}}));
  EXPECT_EQ(fields("1,2,\n3,,4\n"), (Rows{{"1", "2", ""}, {"3", "", "4"}}));
  EXPECT_THAT(ErrorOf([&] { fields("f,n\n\"a,1\n"); }),
              AllOf(HasSubstr("t.csv:2"), HasSubstr("its line does not end")));
  EXPECT_THAT(ErrorOf([&] { fields("f,n\n\"a\"b,1\n"); }), HasSubstr("a quote inside is written twice"));
  EXPECT_THAT(ErrorOf([&] { fields(std::string("f,n\n\0,1\n", 8)); }), HasSubstr("t.csv:2"));
  Write("t.csv", "f;n\na;3,5\n");
  const Table table = ReadTable(At("t.csv"));
  EXPECT_THAT(ErrorOf([&] { NumberAt(table, 0, 1); }), HasSubstr("decimals stand behind a point, not a comma"));
}

TEST_F(ExactData, RoundedTargetsAreCounted) {
  Write("t.csv", "file,id,x\na.png,1699999999,0.5\nmy photo.png,3,3.14159265358979\n");
  const ImportReport report = Import(StrCat("csv:", At("t.csv").string(), ",", folder_.string()), At("db"), {});
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_THAT(report.warnings[0],
              HasSubstr("2 numbers have more digits than a float keeps, or lie nearer to 0 than it can, and "
                        "are rounded (line 2, \"id\": 1699999999 becomes 1700000000"));
}

// 1e-50 is no float but 0, 1e-42 one of three digits.
TEST_F(ExactData, NumbersNearZeroAreCounted) {
  EXPECT_TRUE(IsRoundedToFloat("1e-50", 1e-50));
  EXPECT_TRUE(IsRoundedToFloat("-1e-42", -1e-42));
  EXPECT_FALSE(IsRoundedToFloat("1e-30", 1e-30));
  EXPECT_FALSE(IsRoundedToFloat("0.0", 0));
  Write("t.csv", "file,x\na.png,1e-50\nmy photo.png,0.5\n");
  const ImportReport report = Import(StrCat("csv:", At("t.csv").string(), ",", folder_.string()), At("db"), {});
  EXPECT_THAT(report.warnings, testing::ElementsAre(HasSubstr("(line 2, \"x\": 1e-50 becomes 0")));
  Write("t.csv", "file,x\na.png,1e50\n");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("csv:", At("t.csv").string(), ",", folder_.string()), At("db2"), {}); }),
              HasSubstr("t.csv:2: \"x\" is 1e50, too large for a float"));
  Write("list.txt", "a.png 1e-50\n");
  EXPECT_THAT(OpenError("MultiLabelImageData",
                        "top: 'a' top: 'b' multi_label_image_data_param { source: 'list.txt' label_num: 1 }"),
              HasSubstr("expected a number as label that a float holds, found \"1e-50\""));
}

TEST_F(ExactData, RowsOfOnePictureAreTold) {
  Write("t.csv", "file,x\na.png,1\nmy photo.png,2\na.png,3\na.png,1\n");
  const ImportReport report = Import(StrCat("csv:", At("t.csv").string(), ",", folder_.string()), At("db"), {});
  EXPECT_THAT(report.warnings, testing::ElementsAre(HasSubstr(
                                   "2 lines name a picture again, 1 of them with another row of numbers: \"a.png\" in "
                                   "lines 2 (1) and 4 (3); each line counts")));
  Write("t.csv", ",file,x\n0,a.png,1\n1,my photo.png,2\n");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("csv:", At("t.csv").string(), ",", folder_.string()), At("db2"), {}); }),
              AllOf(HasSubstr("t.csv:1: the first column has no name"), HasSubstr("index=False")));
  Write("t.csv", "x,file\n1,a.png\n");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("csv:", At("t.csv").string(), ",", folder_.string()), At("db2"), {}); }),
              HasSubstr("the first column has the paths, all others numbers"));
  Write("t.csv", "file,x,x\na.png,1,2\n");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("csv:", At("t.csv").string(), ",", folder_.string()), At("db2"), {}); }),
              HasSubstr("t.csv:1: columns 1 and 2, counted from 0, are both called \"x\""));
}

TEST_F(ExactData, ColumnsThatAreNotUsedMayHaveAnyNames) {
  Write("t.csv", "a,y,b,b,,\n1,2,3,4,5,6\n7,8,9,1,2,3\n");
  EXPECT_EQ(ImportTable(At("t.csv"), At("table"), {.target = "y", .features = {"a"}}).columns,
            std::vector<std::string>{"a"});
  EXPECT_THAT(ErrorOf([&] { ImportTable(At("t.csv"), At("none"), {.target = "b", .features = {"a"}}); }),
              HasSubstr("t.csv:1: columns 2 and 3, counted from 0, are both called \"b\""));
}

TEST_F(ExactData, ATablesNumbersAreScaledOrKeptOrToldRounded) {
  Write("t.csv", "id,y\n1699999999,1\n3,16777217\n");
  const auto told = [&](TableOptions::Scaling scaling) {
    SetLogFile(At("log"));
    ImportTable(At("t.csv"), At("table"), {.target = "y", .scaling = scaling});
    SetLogFile({});
    const std::string log = ReadFile(At("log"));
    std::filesystem::remove(At("log"));
    std::filesystem::remove_all(At("table"));
    return log;
  };
  EXPECT_THAT(told(TableOptions::Scaling::kNone),
              HasSubstr("2 numbers have more digits than a float keeps, or lie "
                        "nearer to 0 than it can, and are rounded (line 2, \"id\": 1699999999 becomes"));
  EXPECT_THAT(told(TableOptions::Scaling::kStandardize), HasSubstr("1 numbers have more digits than a float keeps"))
      << "what is scaled is computed anew; targets are not";
}

}  // namespace
}  // namespace moka
