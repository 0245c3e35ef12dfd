// The lines of MLPerf's log, the order of a training's events, and how a resumed run takes up the log before it.
#include "optim/run/mlperf_log.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/page_cache.h"
#include "optim/run/mlperf_run.h"
#include "optim_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A log in a text, whose time is the number of its lines.
class MlperfLogTest : public FolderTest {
 protected:
  MlperfLog Log() {
    return {[this](std::string_view line) { text_ += StrCat(line, "\n"); },
            [this] { return std::ranges::count(text_, '\n'); }};
  }
  static MlperfRun::Course Course(int64_t test_interval) {
    return {.facts = {.seed = 1, .train_samples = 100, .eval_samples = 10, .batch = 10, .norm_span = 0},
            .test_interval = test_interval,
            .max_iter = 30};
  }
  // Iterations from `done` to before `end`, with the tests that follow them.
  static void Train(MlperfRun& run, int64_t done, int64_t end, int64_t test_interval) {
    while (done < end) {
      run.Train(done);
      run.Trained(++done);
      if (done % test_interval != 0) continue;
      run.StartTest(done);
      run.Test(done, 0.5);
      run.EndTest(done);
    }
  }
  // "run_start@0": keys and iterations.
  static std::vector<std::string> Events(const std::string& text) {
    std::vector<std::string> events;
    for (const std::string& line : Split(text, '\n')) {
      if (line.empty()) continue;
      const auto json = nlohmann::json::parse(line.substr(line.find('{')));
      events.push_back(StrCat(json.at("key").get<std::string>(), "@", json.at("metadata").value("iteration", -1)));
    }
    return events;
  }

  std::string text_;
};

TEST_F(MlperfLogTest, LinesAreAsMllogWritesThem) {
  const MlperfLog log = Log();
  log.Event("seed", int64_t{3}, {{"note", std::string("a \"b\"\n")}});
  log.Start("run_start");
  log.At(77).End("run_stop", {{"status", std::string("success")}});
  const std::vector<std::string> lines = Split(text_, '\n');
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(
      lines[0].starts_with(":::MLLOG {\"namespace\": \"\", \"time_ms\": 0, \"event_type\": \"POINT_IN_TIME\", "
                           "\"key\": \"seed\", \"value\": 3, \"metadata\": {\"file\": "))
      << lines[0];
  EXPECT_THAT(lines[0], HasSubstr(R"("note": "a \"b\"\n"})"));
  EXPECT_THAT(lines[1],
              HasSubstr("\"time_ms\": 1, \"event_type\": \"INTERVAL_START\", \"key\": \"run_start\", \"value\": null"));
  EXPECT_THAT(lines[2], HasSubstr("\"time_ms\": 77, \"event_type\": \"INTERVAL_END\""));
}

TEST_F(MlperfLogTest, EpochsAreIntervalsWhereTestsLieAtTheirEnds) {
  MlperfRun run(Log(), Course(20));
  run.Begin();
  Train(run, 0, 20, 20);
  run.End(20, true);
  run.End(20, false);  // it has ended
  run.Train(20);
  EXPECT_THAT(Events(text_),
              ElementsAre("run_start@0", "epoch_start@0", "epoch_stop@10", "epoch_start@10", "epoch_stop@20",
                          "eval_start@20", "eval_accuracy@20", "eval_stop@20", "run_stop@20"));
  EXPECT_THAT(text_, HasSubstr("\"epoch_num\": 2, \"iteration\": 10"));
}

TEST_F(MlperfLogTest, BlocksAreIntervalsElsewhereAndAnAbortedRunLeavesItsOwnOpen) {
  MlperfRun run(Log(), Course(4));
  run.Begin();
  Train(run, 0, 5, 4);
  run.Test(5, std::nan(""));
  run.End(5, false);
  EXPECT_THAT(Events(text_), ElementsAre("run_start@0", "block_start@0", "block_stop@4", "eval_start@4",
                                         "eval_accuracy@4", "eval_stop@4", "block_start@4", "run_stop@5"));
  EXPECT_THAT(text_, HasSubstr("\"first_epoch_num\": 1.4, \"epoch_count\": 0.4, \"iteration\": 4"));
  EXPECT_THAT(text_, HasSubstr("\"status\": \"aborted\""));
}

TEST_F(MlperfLogTest, AResumedLogIsThatOfARunWithoutAPause) {
  const auto whole = [&](int64_t interval) {
    text_.clear();
    MlperfRun run(Log(), Course(interval));
    run.Begin();
    Train(run, 0, 30, interval);
    run.End(30, true);
    return Events(text_);
  };
  for (const int64_t interval : {20, 4, 7}) {
    const std::vector<std::string> expected = whole(interval);
    for (int64_t kept = 0; kept < 29; ++kept) {
      text_.clear();
      MlperfRun first(Log(), Course(interval));
      first.Begin();
      Train(first, 0, std::min<int64_t>(kept + 5, 30), interval);
      first.Train(std::min<int64_t>(kept + 5, 30));
      first.End(kept + 5, false);
      const ResumedMlperfLog log = ResumeMlperfLog(text_ + ":::MLLOG {\"cut", kept, true);
      ASSERT_TRUE(log.has_started);
      text_ = log.text;
      MlperfRun second(Log(), Course(interval), log.open_since);
      second.GoOn(kept, 1.5);
      Train(second, kept, 30, interval);
      second.End(30, true);
      std::vector<std::string> events = Events(text_);
      EXPECT_EQ(std::erase(events, StrCat("moka_resume@", kept)), 1U);
      EXPECT_EQ(events, expected) << interval << " " << kept;
    }
  }
}

TEST_F(MlperfLogTest, ATestThatIsMadeAnewIsNotKept) {
  MlperfRun run(Log(), Course(4));
  run.Begin();
  Train(run, 0, 4, 4);
  EXPECT_EQ(Events(ResumeMlperfLog(text_, 4, true).text).back(), "eval_stop@4");
  EXPECT_EQ(Events(ResumeMlperfLog(text_, 4, false).text).back(), "block_stop@4");
  EXPECT_FALSE(ResumeMlperfLog("", 4, true).has_started);
}

TEST_F(MlperfLogTest, PagesOfAFileAreDroppedOrCounted) {
  WriteFileAtomically(At("file"), std::string(100'000, 'x'));
  const DroppedPages dropped = DropPages(At("file"));
  EXPECT_EQ(dropped.bytes, 100'000);
  EXPECT_GE(dropped.left_bytes, 0);
  EXPECT_EQ(ReadFile(At("file")), std::string(100'000, 'x'));
  EXPECT_EQ(ErrorOf([&] { DropPages(At("none")); }).kind, ErrorKind::kNoInput);
  WriteFileAtomically(At("empty"), "");
  EXPECT_EQ(DropPages(At("empty")).bytes, 0);
}

// Pages of a file system in memory cannot be dropped, so that they must be counted.
TEST_F(MlperfLogTest, PagesThatStayAreCounted) {
  const std::filesystem::path shelf = "/dev/shm";
  if (!std::filesystem::is_directory(shelf)) GTEST_SKIP() << "no file system in memory here";
  const std::filesystem::path kept = shelf / StrCat("moka_pages_", getpid());
  WriteFileAtomically(kept, std::string(100'000, 'x'));
  const DroppedPages dropped = DropPages(kept);
  std::filesystem::remove(kept);
  EXPECT_EQ(dropped.left_bytes, 100'000);
}

}  // namespace
}  // namespace moka
