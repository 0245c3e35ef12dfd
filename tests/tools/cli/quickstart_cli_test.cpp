// The first minute of a user: the commands that moka quickstart shows are those that it runs, and what they leave is a
// trained net.
#include <gmock/gmock.h>

#include <string>

#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

TEST_F(CliTest, QuickstartTrainsTestsAndClassifies) {
  const fs::path here = folder_ / "quick";
  fs::create_directories(here);
  const auto moka = [&](const std::string& words) {
    return RunShell(StrCat("cd '", here.string(), "' && '", MOKA_BINARY, "' ", words), folder_);
  };
  const Outcome first = moka("quickstart --pictures 3000 --iterations 200 --threads 1");
  ASSERT_EQ(first.code, 0) << first.err;
  for (const char* shown :
       {"$ moka data import glyphs:3000:1 data/glyphs/train\n", "$ moka data import glyphs:500:2 data/glyphs/test\n",
        "/models/lenet --run=quickstart ", " max_iter=200 ", "$ moka test runs/quickstart-0001\n",
        "$ moka infer runs/quickstart-0001 runs/quickstart-0001/samples/"}) {
    EXPECT_THAT(first.err, HasSubstr(shown));
  }
  EXPECT_THAT(first.out, HasSubstr("the curve:    runs/quickstart-0001/plots/accuracy.svg\n"));
  EXPECT_TRUE(fs::exists(here / "runs/quickstart-0001/plots/accuracy.svg"));
  const Outcome tested = moka("test runs/quickstart-0001 --json --threads 1");
  EXPECT_GT(Json::parse(tested.out).at("outputs").at("accuracy").get<double>(), 0.8) << tested.out;
  // The digits are drawn once; the run is a new one.
  const Outcome second = moka("quickstart --iterations 1 --threads 1 --quiet");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, testing::Not(HasSubstr("data import")));
  EXPECT_THAT(second.out, HasSubstr("runs/quickstart-0002/plots/accuracy.svg"));
}

// A step that fails says why, which is the whole answer, and its exit code is the verb's.
TEST_F(CliTest, QuickstartEndsWithTheStepThatFails) {
  const fs::path here = folder_ / "damaged";
  fs::create_directories(here / "data/glyphs/train");
  fs::create_directories(here / "data/glyphs/test");
  const Outcome outcome =
      RunShell(StrCat("cd '", here.string(), "' && '", MOKA_BINARY, "' quickstart --iterations 1"), folder_);
  EXPECT_EQ(outcome.code, 66) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("data/glyphs/train"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("$ moka test")));
}

}  // namespace
}  // namespace moka
