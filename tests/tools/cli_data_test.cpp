// The data verbs of the command line: imports that are stopped, go on, or find the disk full.
#include "data/lmdb_file.h"
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

}  // namespace
}  // namespace moka
