// The data verbs of the command line: imports that are stopped, go on, or find the disk full; parts, shuffled copies
// and the sheet of pictures.
#include "data/image/image.h"
#include "data/records/lmdb_file.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class CliDataTest : public CliTest {
 protected:
  static bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  static void ExpectSameRecords(const std::string& a, const std::string& b) {
    EXPECT_TRUE(ReadFile(folder_ / a / "data.mdb") == ReadFile(folder_ / b / "data.mdb"));
    EXPECT_EQ(ReadFile(folder_ / a / "records.crc32c"), ReadFile(folder_ / b / "records.crc32c"));
  }
};

TEST_F(CliDataTest, AStoppedImportGoesOn) {
  const std::string command = "data import glyphs:20000:1 stopped --storage png --batch 512";
  const Outcome stopped =
      MokaStopped(command, "test $(stat -c %s stopped.partial/data.mdb 2>/dev/null || echo 0) -gt 99999");
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_TRUE(Has(stopped.err, "interrupted after ")) << stopped.err;
  EXPECT_TRUE(Has(stopped.err, "the same command goes on after the ")) << stopped.err;
  EXPECT_FALSE(fs::exists(folder_ / "stopped"));
  const int64_t kept = LmdbReader(folder_ / "stopped.partial").size();
  EXPECT_GT(kept, 0);
  const Outcome other = Moka("data import glyphs:20000:2 stopped --storage png --batch 512");
  EXPECT_EQ(other.code, 73);
  EXPECT_TRUE(Has(other.err, "its source is \"glyphs 20000 1\", this one's \"glyphs 20000 2\"")) << other.err;
  EXPECT_TRUE(Has(other.err, "--restart")) << other.err;
  const Outcome resumed = Moka(command + " --workers 3 --json");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(Json::parse(resumed.out)["resumed_at"], kept);
  EXPECT_EQ(Json::parse(resumed.out)["records"], 20000);
  ASSERT_EQ(Moka("data import glyphs:20000:1 unbroken --storage png --batch 512 --workers 1").code, 0);
  ExpectSameRecords("stopped", "unbroken");
  EXPECT_EQ(Moka("data verify stopped").code, 0);
  EXPECT_EQ(Moka(command).code, 73) << "it exists now";
}

// The shell's limit of a file's size stands for a full disk.
TEST_F(CliDataTest, AFullDiskEndsWithOneErrorAndGoesOn) {
  const std::string command = "data import glyphs:3000:1 full --batch 64";
  const Outcome full = Moka(command, "trap '' XFSZ; ulimit -f 1000;");
  EXPECT_EQ(full.code, 74) << full.err;
  EXPECT_TRUE(Has(full.err, "error: full: cannot write records ")) << full.err;
  EXPECT_TRUE(Has(full.err, "make room and run the same command again")) << full.err;
  EXPECT_EQ(full.err.find("error:"), full.err.rfind("error:")) << "one error";
  const int64_t kept = LmdbReader(folder_ / "full.partial").size();
  EXPECT_GT(kept, 0);
  EXPECT_EQ(Moka("data verify full.partial").code, 0);
  const Outcome resumed = Moka(command);
  EXPECT_EQ(resumed.out, StrCat("full: 3000 records, 10 classes, ", kept, " of an earlier, unfinished import\n"));
  ASSERT_EQ(Moka("data import glyphs:3000:1 roomy --batch 64").code, 0);
  ExpectSameRecords("full", "roomy");
}

TEST_F(CliDataTest, PartsAndShuffledCopies) {
  ASSERT_EQ(Moka("data import glyphs:200:5 digits").code, 0);
  const Outcome split = Moka("data split digits --parts train=0.75,val=0.2 --seed 3 --by-class");
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_TRUE(Has(split.out, "digits_train: ")) << split.out;
  EXPECT_TRUE(Has(split.out, " records are in no part\n")) << split.out;
  const int64_t train = LmdbReader(folder_ / "digits_train").size();
  const int64_t val = LmdbReader(folder_ / "digits_val").size();
  EXPECT_NEAR(static_cast<double>(train), 150, 5);
  EXPECT_NEAR(static_cast<double>(val), 40, 5);
  EXPECT_EQ(ReadFile(folder_ / "digits_val/labels.txt"), ReadFile(folder_ / "digits/labels.txt"));
  EXPECT_EQ(Moka("data split digits --parts train=0.9,val=0.2").code, 64);
  EXPECT_EQ(Moka("data split digits").code, 64);
  ASSERT_EQ(Moka("data split digits --parts a=0.5,b=0.5 --out parts").code, 0);
  EXPECT_EQ(LmdbReader(folder_ / "parts/b").size(), 100);
  ASSERT_EQ(Moka("data shuffle digits mixed --seed 9").code, 0);
  EXPECT_EQ(LmdbReader(folder_ / "mixed").size(), 200);
  EXPECT_EQ(Moka("data verify mixed").code, 0);
}

TEST_F(CliDataTest, AHistogramAndASheet) {
  ASSERT_EQ(Moka("data import glyphs:60:4 shown").code, 0);
  const Outcome inspected = Moka("data inspect shown --sheet sheet.png --per-class 5");
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_TRUE(Has(inspected.out, "████")) << inspected.out;
  const ImageHeader header = ReadImageHeader(ReadFile(folder_ / "sheet.png"));
  EXPECT_EQ(header.width, 4 + 5 * 100);
  EXPECT_EQ(header.height, 4 + 10 * (18 + 100 + 4));
}

TEST_F(CliDataTest, AVocabularyOfTexts) {
  WriteFileAtomically(folder_ / "text.txt", "The dog.\nA dog, a man\n");
  const Outcome all = Moka("data vocabulary text.txt words.txt");
  EXPECT_EQ(all.out,
            "words.txt: 6 of 6 different words, with the marks 10 numbers; of 8 words in 2 lines 100.00 % are known\n")
      << all.err;
  EXPECT_EQ(ReadFile(folder_ / "words.txt"), "<pad>\n<s>\n</s>\n<unk>\na\ndog\n,\n.\nman\nthe\n");
  const Outcome few = Moka("data vocabulary text.txt words.txt --tokens blanks --min-count 1 --most 2");
  EXPECT_EQ(few.out,
            "words.txt: 2 of 6 different words, with the marks 6 numbers; of 6 words in 2 lines 33.33 % are known\n");
  EXPECT_EQ(ReadFile(folder_ / "words.txt"), "<pad>\n<s>\n</s>\n<unk>\nA\nThe\n");
  WriteFileAtomically(folder_ / "qa.txt", "1 A man slept.\n2 Who slept?\tman\t1\n");
  EXPECT_EQ(Moka("data vocabulary qa.txt words.txt --stories").code, 0);
  EXPECT_EQ(ReadFile(folder_ / "words.txt"), "<pad>\n<s>\n</s>\n<unk>\nman\nslept\na\nwho\n");
  EXPECT_EQ(Moka("data vocabulary qa.txt words.txt --stories --tokens words").code, 64);
  const Outcome forgotten = Moka("data vocabulary qa.txt text.txt");
  EXPECT_EQ(forgotten.code, 73);
  EXPECT_TRUE(Has(forgotten.err, "text.txt exists and is no vocabulary")) << forgotten.err;
  EXPECT_EQ(ReadFile(folder_ / "text.txt"), "The dog.\nA dog, a man\n");
}

}  // namespace
}  // namespace moka
