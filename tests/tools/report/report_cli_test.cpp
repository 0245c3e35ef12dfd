// The report of a training as a person gets it: LeNet on drawn digits, with numbers that are those of moka test.
#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tools/nets/test_source.h"
#include "tools/report/test_pass.h"

namespace moka {
namespace {

using testing::HasSubstr;
using testing::Not;

class ReportCli : public CliTest {
 protected:
  static Json ReportOf(const std::string& run) { return Json::parse(ReadFile(folder_ / run / "report.json")); }
  static std::string PageOf(const std::string& run) { return ReadFile(folder_ / run / "report.html"); }
  // The bytes of a run's newest weights.
  static std::string WeightsOf(const std::string& run) {
    return ReadFile(ListFiles(folder_ / run / "checkpoints", ".safetensors").back());
  }
};

TEST_F(ReportCli, NumbersAreThoseOfATest) {
  const Json report = ReportOf(Run());
  const Outcome tested = Moka(StrCat("test ", Run(), " --json"));
  ASSERT_EQ(tested.code, 0) << tested.err;
  const Json test = Json::parse(tested.out);
  EXPECT_EQ(report["metrics"]["accuracy"]["value"], test["outputs"]["accuracy"]);
  EXPECT_NEAR(report["metrics"]["loss"]["value"].get<double>(), test["outputs"]["loss"].get<double>(), 1e-5);
  EXPECT_EQ(report["samples"], 200);
  EXPECT_EQ(report["task"], "classification");
  EXPECT_LT(report["metrics"]["accuracy"]["low"], report["metrics"]["accuracy"]["value"]);
  EXPECT_GT(report["metrics"]["accuracy"]["high"], report["metrics"]["accuracy"]["value"]);
}

TEST_F(ReportCli, PartsAddUp) {
  const Json report = ReportOf(Run());
  int64_t samples = 0;
  int64_t right = 0;
  for (const Json& cell : report["confusion"]["cells"]) {
    samples += cell[2].get<int64_t>();
    if (cell[0] == cell[1]) right += cell[2].get<int64_t>();
  }
  EXPECT_EQ(samples, 200);
  EXPECT_NEAR(static_cast<double>(right) / 200, report["metrics"]["accuracy"]["value"].get<double>(), 1e-6);
  int64_t support = 0;
  ASSERT_EQ(report["classes"].size(), 10U);
  for (const Json& one : report["classes"]) support += one["support"].get<int64_t>();
  EXPECT_EQ(support, 200);
  int64_t binned = 0;
  for (const Json& bin : report["calibration"]["bins"]) binned += bin["samples"].get<int64_t>();
  EXPECT_EQ(binned, 200);
  EXPECT_EQ(report["mistakes"]["in_all"], 200 - right);
  // Imports of digits have the label behind the number in the key.
  for (const Json& mistake : report["mistakes"]["worst"]) {
    const auto record = mistake["record"].get<std::string>();
    EXPECT_TRUE(record.ends_with(StrCat("_", mistake["label"].get<int64_t>()))) << record;
    EXPECT_NE(mistake["label"], mistake["predicted"]);
  }
  EXPECT_EQ(report["curves"]["accuracy"]["test accuracy"].size(), 3U);
  EXPECT_THAT(report["repeat"]["training"].get<std::string>(), HasSubstr("max_iter=120"));
  EXPECT_EQ(report["repeat"]["seed"], "5");
}

TEST_F(ReportCli, ThePageNeedsNothingElse) {
  const std::string page = PageOf(Run());
  EXPECT_THAT(page, HasSubstr("src=\"data:image/png;base64,"));
  EXPECT_THAT(page, HasSubstr("<h2>Calibration</h2>"));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  EXPECT_LT(page.size(), size_t{4} << 20U);
}

// The report is the only difference.
TEST_F(ReportCli, ATrainingIsTheSameWithoutIt) {
  const std::string weights = WeightsOf(Run());
  const Outcome trained = Moka(Solver() + " max_iter=120 snapshot=60 --no-report --run plain");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_FALSE(fs::exists(folder_ / "runs/plain-0001/report.html"));
  EXPECT_EQ(WeightsOf("runs/plain-0001"), weights);
}

TEST_F(ReportCli, ItIsMadeAgainOfACheckpoint) {
  (void)Run();
  const std::string before = WeightsOf(Run());
  const Outcome made = Moka("report lenet-0001@iter_60 --json");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(Json::parse(made.out)["weights"], "checkpoints/iter_0000060.safetensors");
  EXPECT_EQ(ReportOf(Run()), Json::parse(made.out));
  EXPECT_EQ(WeightsOf(Run()), before);
  const Outcome part = Moka("report lenet-0001 --iterations 1");
  ASSERT_EQ(part.code, 0) << part.err;
  EXPECT_THAT(part.out, HasSubstr("samples = 100\n"));
  EXPECT_THAT(part.out, HasSubstr("runs/lenet-0001/report.html\n"));
  ASSERT_EQ(Moka("report lenet-0001").code, 0);
}

TEST_F(ReportCli, HostileNamesOfClassesStayText) {
  const fs::copy_options whole = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
  fs::copy(folder_ / Run(), folder_ / "runs/hostile-0001", whole);
  std::string names;
  for (int i = 0; i < 10; ++i) names += StrCat("<script>alert(", i, ")</script>\n");
  WriteFileAtomically(folder_ / "runs/hostile-0001/config/labels.txt", names);
  const Outcome made = Moka("report hostile-0001");
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string page = PageOf("runs/hostile-0001");
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("3 &lt;script&gt;alert(3)&lt;/script&gt;"));
  EXPECT_EQ(ReportOf("runs/hostile-0001")["classes"][3]["name"], "<script>alert(3)</script>");
}

TEST_F(ReportCli, OfSeveralRanksTheFirstWrites) {
  (void)Run();
  const Outcome trained = Moka(Solver() + " max_iter=20 --ranks 2 --run ranks");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(ReportOf("runs/ranks-0001")["samples"], 200);
  EXPECT_THAT(trained.err, HasSubstr("  report  runs/ranks-0001/report.html\n"));
}

// Without a test there is nothing to report at the end; the verb tests the data of the net's test phase all the same.
TEST_F(ReportCli, ATrainingWithoutTestsHasNone) {
  (void)Run();
  const std::string words = StrCat(
      "train '", MOKA_SOURCE_DIR, "/models/lenet' 'layer[0].data_param.source=data/train' ",
      "'layer[1].data_param.source=data/test' '~test_iter' test_interval=0 max_iter=5 ", "random_seed=1 --run quiet");
  const Outcome trained = Moka(words);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_FALSE(fs::exists(folder_ / "runs/quiet-0001/report.html"));
  EXPECT_EQ(Moka("report quiet-0001").code, 0);
  EXPECT_EQ(ReportOf("runs/quiet-0001")["samples"], 200);
}

TEST_F(ReportCli, ATestOfMoreSamplesThanAreJudgedSaysSo) {
  const std::string run = Run();
  const fs::path here = fs::current_path();
  fs::current_path(folder_);  // the run's net names its data from there
  const TestSource source = SourceOfRun(run, "runs");
  const NetParameter net = ReadTestedNets(source, {}, {}).at(0);
  ReportContent whole;
  ASSERT_TRUE(AddTestPass(net, source.weights, {}, whole));
  EXPECT_EQ(whole.pass->samples, 200);
  EXPECT_TRUE(whole.notes.empty());
  ReportContent cut;
  ASSERT_TRUE(AddTestPass(net, source.weights, {.compile = {}, .most_samples = 120}, cut));
  fs::current_path(here);
  const int64_t first = 120 / whole.pass->batch * whole.pass->batch;
  EXPECT_EQ(cut.pass->samples, first);
  EXPECT_THAT(cut.notes,
              testing::ElementsAre(StrCat("A report is of 120 samples at most: its numbers are those of the first ",
                                          first, " of 200; moka test takes all of them.")));
}

TEST_F(ReportCli, MistakesAreTold) {
  const Outcome none = Moka("report lenet-9999");
  EXPECT_EQ(none.code, 66) << none.err;
  EXPECT_EQ(Moka("report").code, 64);
  EXPECT_EQ(Moka("report lenet-0001 base_lr=1").code, 64);
}

}  // namespace
}  // namespace moka
