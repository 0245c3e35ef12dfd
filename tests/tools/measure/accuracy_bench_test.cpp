// Runs and peers as moka bench accuracy reads them, its sums, and the file that it goes on from.
#include "tools/measure/accuracy_bench.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "optim/run/target.h"
#include "tests/tools/measure/well_formed.h"
#include "tools/measure/accuracy_report.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The text of the error that it throws, which is one of bad data; empty if none.
std::string FaultOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadData) << error.what();
    return error.what();
  }
  return {};
}

const AccuracyTarget kTarget{.metric = "accuracy", .value = 0.9};

class AccuracyRunTest : public testing::Test {
 protected:
  AccuracyRunTest() { fs::create_directories(folder_); }
  ~AccuracyRunTest() override { fs::remove_all(folder_); }

  fs::path Write(const std::string& file, const std::string& text) const {
    fs::create_directories((folder_ / file).parent_path());
    WriteFileAtomically(folder_ / file, text);
    return folder_ / file;
  }
  // A run of 40 iterations of 50 images with a test after each 20.
  fs::path RunFolder(const std::string& name, const std::string& metrics, const std::string& parent = "null") const {
    Write(name + "/run.json", StrCat(R"({"version": "9.9", "parent": )", parent, R"(, "sessions": [{}, {}]})"));
    Write(name + "/status.json",
          R"({"state": "finished", "iter": 40, "batch": 50, "clock": {"init_s": 1.5, "run_s": 12.5}})");
    Write(name + "/metrics.jsonl", metrics);
    return folder_ / name;
  }
  static AccuracyRun Read(const fs::path& folder, int code = 0) {
    AccuracyRun run{.setting = "a", .seed = 3, .place = {}};
    ReadRunOfMoka(folder, code, kTarget, run);
    return run;
  }

  static constexpr const char* kLines =
      "{\"iter\":0,\"epoch\":0.1,\"time\":1,\"clock_s\":0.5,\"split\":\"train\",\"loss\":2,\"images_per_s\":100,"
      "\"input_wait_ms\":100}\n"
      "{\"iter\":20,\"epoch\":2,\"time\":1,\"clock_s\":5,\"split\":\"test\",\"accuracy\":0.8,\"loss\":0.4}\n"
      "{\"iter\":30,\"epoch\":3,\"time\":1,\"clock_s\":8,\"split\":\"train\",\"loss\":1,\"images_per_s\":300,"
      "\"input_wait_ms\":50}\n"
      "{\"iter\":40,\"epoch\":4,\"time\":1,\"clock_s\":10,\"split\":\"test\",\"accuracy\":0.95,\"loss\":0.3}\n"
      "{\"iter\":40,\"epoch\":4,\"time\":1,\"clock_s\":11,\"split\":\"test1\",\"accuracy\":0.1}\n";

  const fs::path folder_ = fs::temp_directory_path() / StrCat("moka_accuracy_run_test_", getpid());
};

TEST_F(AccuracyRunTest, ARunThatReachedTheTargetIsReadUpToIt) {
  const AccuracyRun run = Read(RunFolder("r", kLines));
  EXPECT_EQ(run.end, AccuracyEnd::kReached);
  ASSERT_EQ(run.points.size(), 2U);
  EXPECT_EQ(run.points[0].iteration, 20);
  EXPECT_EQ(run.points[1].value, 0.95);
  EXPECT_EQ(run.points[1].epoch, 4);
  EXPECT_EQ(run.clock_s, 10);
  EXPECT_EQ(run.init_s, 1.5);
  EXPECT_EQ(run.images_per_s, 40 * 50 / 10.0);
  EXPECT_EQ(run.training_images_per_s, 300);
  EXPECT_DOUBLE_EQ(run.input_wait.value_or(-1), (0.1 + 30 * 0.05) / 8);
  EXPECT_EQ(run.sessions, 2);
  EXPECT_EQ(run.version, "moka 9.9");
}

TEST_F(AccuracyRunTest, ARunThatMissedItHasItsWholeClock) {
  const std::string lines = std::string(kLines).replace(std::string(kLines).find("0.95"), 4, "0.85");
  const AccuracyRun run = Read(RunFolder("r", lines), 21);
  EXPECT_EQ(run.end, AccuracyEnd::kMissed);
  EXPECT_EQ(run.clock_s, 12.5);
  EXPECT_EQ(run.points.back().value, 0.85);
}

TEST_F(AccuracyRunTest, TestsThatWereMadeAgainCountOnce) {
  const std::string again =
      "{\"event\":\"resume\",\"iter\":20,\"time\":1}\n"
      "{\"iter\":40,\"epoch\":4,\"time\":1,\"clock_s\":14,\"split\":\"test\",\"accuracy\":0.93}\n";
  const AccuracyRun run = Read(RunFolder("r", kLines + again));
  ASSERT_EQ(run.points.size(), 2U);
  EXPECT_EQ(run.clock_s, 14);
  EXPECT_EQ(run.points[1].value, 0.93);
}

TEST_F(AccuracyRunTest, TheTrainingBeforeItIsOnItsClock) {
  const fs::path first = RunFolder("first", "");
  const AccuracyRun run = Read(RunFolder("r", kLines, StrCat("\"", first.string(), "@last\"")));
  EXPECT_EQ(run.clock_s, 12.5 + 10);
  EXPECT_EQ(run.points[0].clock_s, 12.5 + 5);
  EXPECT_EQ(run.images_per_s, 40 * 50 / 10.0) << "of its own iterations";
}

TEST_F(AccuracyRunTest, ARunThatDivergedAtOnceHasNoPoints) {
  const fs::path folder = RunFolder("r", "");
  fs::remove(folder / "metrics.jsonl");
  Write("r/status.json", R"({"state": "diverged", "iter": 1})");
  const AccuracyRun run = Read(folder, 20);
  EXPECT_EQ(run.end, AccuracyEnd::kDiverged);
  EXPECT_EQ(LastPoint(run), nullptr);
  EXPECT_EQ(run.clock_s, 0);
}

TEST_F(AccuracyRunTest, RunsOfOlderProgramsAreRefused) {
  const fs::path folder = RunFolder("r", kLines);
  Write("r/metrics.jsonl", "{\"iter\":20,\"epoch\":2,\"time\":1,\"split\":\"test\",\"accuracy\":0.95}\n");
  EXPECT_THAT(FaultOf([&] { Read(folder); }), HasSubstr("made by an older program"));
  Write("r/metrics.jsonl", kLines);
  Write("r/status.json", R"({"state": "finished", "iter": 40})");
  EXPECT_THAT(FaultOf([&] { Read(folder); }), HasSubstr("made by an older program"));
}

TEST_F(AccuracyRunTest, LossesFallToTheirTarget) {
  const AccuracyTarget loss{.metric = "test_loss", .value = 0.35};
  EXPECT_TRUE(FallsToItsTarget(loss.metric));
  EXPECT_FALSE(FallsToItsTarget("accuracy"));
  EXPECT_TRUE(MeetsTarget(0.3, loss.value, true));
  EXPECT_FALSE(MeetsTarget(0.4, loss.value, true));
  EXPECT_FALSE(MeetsTarget(NAN, loss.value, true));
  EXPECT_EQ(loss.Text(), "test_loss <= 0.35");
  EXPECT_FALSE(MeetsTarget(NAN, 0.9, false));
  EXPECT_FALSE(MeetsTarget(0.89999, 0.9, false));
}

// A count of right answers out of many meets its own decimal, whichever way it was averaged and the target is held.
TEST_F(AccuracyRunTest, ACountMeetsItsOwnDecimal) {
  for (int right = 0; right <= 1000; ++right) {
    const double target = std::stod(fmt::format("{:.3f}", right / 1000.0));
    double sum = 0;  // of ten batches of 100 in single precision
    for (int batch = 0; batch < 10; ++batch) {
      sum += double{static_cast<float>(right / 10 + (batch < right % 10 ? 1 : 0)) / 100.0F};
    }
    EXPECT_TRUE(MeetsTarget(sum / 10, double{static_cast<float>(target)}, false)) << right;
    EXPECT_TRUE(MeetsTarget(sum / 10, double{static_cast<float>(target)}, true)) << right;
    EXPECT_TRUE(MeetsTarget(right / 1000.0, target, false)) << right;
    EXPECT_FALSE(MeetsTarget((right - 1) / 1000.0, target, false)) << right;
    EXPECT_FALSE(MeetsTarget((right + 1) / 1000.0, target, true)) << right;
  }
}

TEST_F(AccuracyRunTest, LinesOfAPeerAreReadAsItsProtocolHasThem) {
  const fs::path file = Write("peer.jsonl",
                              "warming up\n"
                              "{\"clock_s\": 2, \"epoch\": 1, \"iteration\": 10, \"accuracy\": 0.5}\n"
                              "{\"clock_s\": 4, \"epoch\": 2, \"iteration\": 20, \"accuracy\": 0.9}\n"
                              "{\"reached\": true, \"init_s\": 7, \"images_per_s\": 123, \"version\": \"torch 2\"}\n");
  AccuracyRun run{.setting = "torch", .seed = 1, .place = {}};
  ReadRunOfPeer(file, kTarget, run);
  EXPECT_EQ(run.end, AccuracyEnd::kReached);
  EXPECT_EQ(run.clock_s, 4);
  EXPECT_EQ(run.points.size(), 2U);
  EXPECT_EQ(run.init_s, 7);
  EXPECT_EQ(run.images_per_s, 123);
  EXPECT_EQ(run.version, "torch 2");
  const auto fault = [&](const std::string& text) {
    return FaultOf([&] { ReadRunOfPeer(Write("peer.jsonl", text), kTarget, run); });
  };
  EXPECT_THAT(fault("{\"clock_s\": 2, \"accuracy\": 0.5}\n"), HasSubstr("no last line"));
  EXPECT_THAT(fault("{\"clock_s\": 2, \"top5\": 0.5}\n{\"reached\": false}\n"), HasSubstr("no test of \"accuracy\""));
  EXPECT_THAT(fault("\n{\"clock_s\": 2,\n"), HasSubstr("peer.jsonl:2"));
}

// Two settings, three seeds; the second is faster and misses once.
AccuracyBench ABench() {
  AccuracyBench bench{.target = kTarget, .version = "1", .cpu = "c", .settings = {}};
  bench.settings = {{.name = "slow", .model = "m", .words = {"base_lr=0.1"}, .config = "1"},
                    {.name = "fast, \"new\"", .model = "m", .words = {"base_lr=1"}, .config = "2"}};
  for (int64_t seed = 1; seed <= 3; ++seed) {
    for (const double factor : {1.0, 0.5}) {
      AccuracyRun run{.setting = bench.settings[factor == 1 ? 0 : 1].name, .seed = seed, .place = "p"};
      const double clock_s = (10 + static_cast<double>(seed)) * factor;
      const bool misses = seed == 3 && factor != 1;
      run.end = misses ? AccuracyEnd::kMissed : AccuracyEnd::kReached;
      run.points = {{.clock_s = clock_s / 2, .iteration = 5, .epoch = 1, .value = NAN},
                    {.clock_s = clock_s, .iteration = 10, .epoch = 2, .value = misses ? 0.5 : 0.91}};
      run.clock_s = clock_s;
      run.init_s = 0.5;
      run.images_per_s = 100 / factor;
      run.peak_bytes = 1 << 20;
      bench.runs.push_back(run);
    }
  }
  return bench;
}

TEST(AccuracyBenchTest, SummariesHaveMediansSpreadsAndRatiosWithinASeed) {
  const std::vector<AccuracySummary> summaries = SummariesOf(ABench());
  ASSERT_EQ(summaries.size(), 2U);
  EXPECT_EQ(summaries[0].reached, 3);
  EXPECT_EQ(summaries[0].clock_s->median, 12);
  EXPECT_EQ(summaries[0].clock_s->min, 11);
  EXPECT_EQ(summaries[0].clock_s->max, 13);
  EXPECT_FALSE(summaries[0].ratio);
  EXPECT_EQ(summaries[1].runs, 3);
  EXPECT_EQ(summaries[1].reached, 2);
  EXPECT_EQ(summaries[1].ratio->median, 0.5);
  EXPECT_FALSE(summaries[1].joules);
}

TEST(AccuracyBenchTest, TheWorstRunIsTheExitCode) {
  AccuracyBench bench = ABench();
  EXPECT_EQ(ExitCodeOf(bench), 21);
  bench.runs[0].end = AccuracyEnd::kDiverged;
  EXPECT_EQ(ExitCodeOf(bench), 20);
  bench.runs.resize(1);
  bench.runs[0].end = AccuracyEnd::kReached;
  EXPECT_EQ(ExitCodeOf(bench), 0);
}

TEST(AccuracyBenchTest, AFileHoldsAllOfIt) {
  const fs::path file = fs::temp_directory_path() / StrCat("moka_accuracy_bench_test_", getpid(), ".json");
  const std::string text = AccuracyJson(ABench());
  WriteFileAtomically(file, text);
  const AccuracyBench read = ReadAccuracyBench(file);
  EXPECT_EQ(AccuracyJson(read), text);
  EXPECT_TRUE(std::isnan(read.runs[0].points[0].value));
  EXPECT_THAT(DifferencesOf(read, ABench()), testing::IsEmpty());
  WriteFileAtomically(file, "{\"bench\": \"accuracy\", \"version\": 1}");
  EXPECT_THAT(FaultOf([&] { ReadAccuracyBench(file); }), HasSubstr(file.filename().string()));
  WriteFileAtomically(file, "{}");
  EXPECT_THAT(FaultOf([&] { ReadAccuracyBench(file); }), HasSubstr("no file of moka bench accuracy"));
  fs::remove(file);
}

TEST(AccuracyBenchTest, DifferencesAreSentences) {
  const AccuracyBench before = ABench();
  AccuracyBench now = before;
  now.target.value = 0.95;
  now.settings[0].words = {"base_lr=0.2"};
  now.settings[1].config = "3";
  now.settings.push_back({.name = "more", .model = "m"});
  const std::vector<std::string> differences = DifferencesOf(before, now);
  ASSERT_EQ(differences.size(), 4U);
  EXPECT_EQ(differences[0], "the target was \"accuracy >= 0.9\", is \"accuracy >= 0.95\"");
  EXPECT_EQ(differences[1], "setting 1 was \"m base_lr=0.1\", is \"m base_lr=0.2\"");
  EXPECT_THAT(differences[2], HasSubstr("the solver or the nets of"));
  EXPECT_THAT(differences[3], HasSubstr("number of settings"));
}

TEST(AccuracyReportTest, TextRowsAndChartHaveEveryRun) {
  AccuracyBench bench = ABench();
  bench.runs.push_back({.setting = "slow", .seed = 4, .place = "open"});
  const std::string text = AccuracyText(bench);
  EXPECT_THAT(text, HasSubstr("target accuracy >= 0.9\n"));
  EXPECT_THAT(text, HasSubstr("3 of 3"));
  EXPECT_THAT(text, HasSubstr("2 of 3"));
  EXPECT_THAT(text, HasSubstr("0.50 [0.50..0.50]"));
  EXPECT_THAT(text, HasSubstr("–")) << "joules that nobody tells";
  const std::vector<std::string> rows = Split(AccuracyCsv(bench), '\n');
  ASSERT_EQ(rows.size(), 8U);  // a header, six runs that have ended, what is behind the last line's end
  EXPECT_EQ(rows[1], "slow,1,reached,11,2,10,0.91,100,,,0.5,1048576,,1");
  EXPECT_THAT(rows[6], testing::StartsWith("fast   new ,3,missed,6.5,"));
  const std::string svg = AccuracySvg(bench);
  EXPECT_EQ(FaultOfXml(svg), "");
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("stroke-linejoin"), 6U);
  EXPECT_EQ(count("stroke-opacity=\"0.6\""), 4U) << "all but the run in the middle of each setting";
  EXPECT_EQ(count("h18\""), 2U) << "a name for each setting";
  EXPECT_EQ(count("stroke-dasharray"), 1U) << "the target";
}

TEST(AccuracyReportTest, BrokenXmlIsFound) {
  EXPECT_EQ(FaultOfXml("<a><b/>x</a>"), "");
  for (const char* broken : {"<a>", "<a></b>", "<a b=\"></a>", "x>", "</a>"})
    EXPECT_NE(FaultOfXml(broken), "") << broken;
}

}  // namespace
}  // namespace moka
