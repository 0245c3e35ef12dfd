// moka data check as a person runs it: text, JSON, the files that it writes, and exit codes.
#include "data/image/image.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class CheckCliTest : public CliTest {
 protected:
  static bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  // Drawn digits as class folders.
  static void MakeFolder(const std::string& name, const std::string& seed) {
    ASSERT_EQ(Moka(StrCat("data import glyphs:12:", seed, " db", seed)).code, 0);
    ASSERT_EQ(Moka(StrCat("data export db", seed, " drawn", seed, " --limit 12")).code, 0);
    for (const char* folder : {"a", "b"}) fs::create_directories(folder_ / name / folder);
    int i = 0;
    for (const fs::path& file : ListFiles(folder_ / StrCat("drawn", seed), ".png")) {
      fs::copy(file, folder_ / name / (i++ % 2 == 0 ? "a" : "b") / file.filename());
    }
  }
};

TEST_F(CheckCliTest, SaysThatTrainingCanStart) {
  MakeFolder("good", "1");
  const Outcome checked = Moka("data check good");
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
  EXPECT_TRUE(checked.out.starts_with("good: 12 pictures\n  sizes    ")) << checked.out;
  EXPECT_TRUE(Has(checked.out, "  classes  a 6, b 6\n")) << checked.out;
  EXPECT_TRUE(Has(checked.out, "training can start: 0 errors, ")) << checked.out;
  const Outcome database = Moka("data check db1 --json");
  EXPECT_EQ(database.code, 0);
  EXPECT_EQ(Json::parse(database.out)["sources"][0]["pictures"], 12);
}

TEST_F(CheckCliTest, NamesWhatIsWrongAndWritesAPage) {
  MakeFolder("train", "2");
  MakeFolder("val", "3");
  const fs::path leak = *fs::directory_iterator(folder_ / "train/a");
  fs::copy(leak, folder_ / "val/a/leak.png");
  WriteFileAtomically(folder_ / "train/b/broken.png", ReadFile(leak).substr(0, 60));
  const Outcome checked = Moka("data check train val --out report");
  EXPECT_EQ(checked.code, 65) << checked.out;
  EXPECT_TRUE(Has(checked.out, "\nerror: 1 file is no picture that can be read\n  train/b/broken.png: ") ||
              Has(checked.out, "\nerror: 1 picture is cut off or damaged\n  train/b/broken.png: "))
      << checked.out;
  EXPECT_TRUE(Has(checked.out, "\nwarning: 1 picture is in several sources (2 files)\n  train/a/")) << checked.out;
  EXPECT_TRUE(Has(checked.out, " = val/a/leak.png\n  help: ")) << checked.out;
  EXPECT_TRUE(Has(checked.out, "\ntraining cannot start: 1 error, ")) << checked.out;
  const Json json = Json::parse(ReadFile(folder_ / "report/check.json"));
  EXPECT_EQ(json["exit_code"], 65);
  EXPECT_EQ(json["sources"].size(), 2U);
  const std::string page = ReadFile(folder_ / "report/check.html");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>")) << page.substr(0, 100);
  EXPECT_TRUE(Has(page, "data:image/jpeg;base64,"));
  const Outcome skipped = Moka("data check train val --skip-bad");
  EXPECT_EQ(skipped.code, 0) << skipped.out;
  EXPECT_EQ(Moka("data check train val --skip-bad --strict").code, 65);
  EXPECT_EQ(Moka("data import train imported").code, 65) << "what the check says, the import does";
}

TEST_F(CheckCliTest, RefusesWhatItCannotUse) {
  EXPECT_EQ(Moka("data check").code, 64);
  EXPECT_EQ(Moka("data check none").code, 66);
  EXPECT_EQ(Moka("data check nonsense:a").code, 64);
  EXPECT_EQ(Moka("data check glyphs:5 --out").code, 64);
  WriteFileAtomically(folder_ / "file", "x");
  EXPECT_EQ(Moka("data check glyphs:5 --out file").code, 73);
}

}  // namespace
}  // namespace moka
