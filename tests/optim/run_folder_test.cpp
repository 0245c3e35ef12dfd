// Run folders under races, locks and dead processes.
#include "optim/run/run_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "optim_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public FolderTest {
 protected:
  static RunIdentity Identity() { return {.name = "lenet", .argv = {"moka", "train"}, .version = "0.1.0", .seed = 7}; }
};

TEST_F(RunFolderTest, TakesTheNextFreeNumber) {
  {
    const RunFolder first = RunFolder::Create(At("runs"), Identity());
    EXPECT_EQ(first.name(), "lenet-0001");
  }
  const RunFolder second = RunFolder::Create(At("runs"), Identity());
  EXPECT_EQ(second.name(), "lenet-0002");
  EXPECT_EQ(fs::read_symlink(At("runs") / "latest"), "lenet-0002");
  const auto run = nlohmann::json::parse(ReadFile(second.path() / "run.json"));
  EXPECT_EQ(run.at("id"), "lenet-0002");
  EXPECT_EQ(run.at("seed"), 7);
  EXPECT_EQ(run.at("sessions").size(), 1U);
  for (const char* part : {"config", "events", "checkpoints", "plots"})
    EXPECT_TRUE(fs::is_directory(second.path() / part));
}

TEST_F(RunFolderTest, WhatIsNoLinkKeepsTheNameLatest) {
  fs::create_directories(At("runs") / "latest");
  RunIdentity identity = Identity();
  identity.data = {{"db", "20 records"}, {"tests", "5 records"}};
  {
    const RunFolder run = RunFolder::Create(At("runs"), identity);
    EXPECT_EQ(run.name(), "lenet-0001");
    run.WriteStatus({.state = "running", .iteration = 5});
    EXPECT_EQ(run.last_status().iteration, 5);
  }
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(At("runs") / "latest")));
  identity.data = {{"tests", "6 records"}, {"more", "1 records"}};
  const RunFolder again = RunFolder::Open(At("runs") / "lenet-0001", identity);
  const auto run = nlohmann::json::parse(ReadFile(again.path() / "run.json"));
  EXPECT_EQ(run.at("data"), (nlohmann::json{{"db", "20 records"}, {"tests", "6 records"}, {"more", "1 records"}}));
}

TEST_F(RunFolderTest, ARunThatFailsGivesLatestToTheNewestThatDidNot) {
  const fs::path runs = At("runs");
  const auto end_as = [](const RunFolder& run, const std::string& state) {
    RunStatus status;
    status.state = state;
    run.WriteStatus(status);
  };
  end_as(RunFolder::Create(runs, Identity()), "finished");
  {
    const RunFolder second = RunFolder::Create(runs, Identity());
    end_as(second, "failed");
    EXPECT_EQ(fs::read_symlink(runs / "latest"), "lenet-0001");
  }
  // Resumed, it is the latest until it fails again.
  RunFolder resumed = RunFolder::Open(runs / "lenet-0002", Identity());
  resumed.BecomeLatest();
  end_as(resumed, "running");
  EXPECT_EQ(fs::read_symlink(runs / "latest"), "lenet-0002");
  end_as(resumed, "diverged");
  EXPECT_EQ(fs::read_symlink(runs / "latest"), "lenet-0001");
  fs::remove_all(runs / "lenet-0001");
  resumed.BecomeLatest();
  end_as(resumed, "failed");
  EXPECT_FALSE(fs::exists(fs::symlink_status(runs / "latest")));
}

TEST_F(RunFolderTest, TwoAtOnceGetTwoFolders) {
  constexpr int kProcesses = 8;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        RunFolder::Create(At("runs"), Identity());
      } catch (const Error&) {
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_TRUE(fs::exists(At("runs") / "lenet-0008" / "run.json"));
  EXPECT_FALSE(fs::exists(At("runs") / "lenet-0009"));
}

TEST_F(RunFolderTest, ASecondProcessIsRefusedAndToldWhoHoldsTheRun) {
  const RunFolder run = RunFolder::Create(At("runs"), Identity());
  const Caught caught = ErrorOf([&] { RunFolder::Open(run.path(), Identity()); });
  EXPECT_EQ(caught.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(caught.text, testing::HasSubstr(StrCat("in use by another process (pid ", getpid())));
}

TEST_F(RunFolderTest, ADeadProcesssLockIsNoObstacle) {
  fs::path path;
  {
    const RunFolder run = RunFolder::Create(At("runs"), Identity());
    path = run.path();
  }
  const RunFolder again = RunFolder::Open(path, Identity());
  EXPECT_TRUE(again.is_resumed());
  EXPECT_EQ(nlohmann::json::parse(ReadFile(path / "run.json")).at("sessions").size(), 2U);
}

TEST_F(RunFolderTest, StatusIsWholeJson) {
  const RunFolder run = RunFolder::Create(At("runs"), Identity());
  run.WriteStatus({.state = "running",
                   .iteration = 5,
                   .max_iteration = 10,
                   .eta_s = INFINITY,
                   .best = 0.5,
                   .error = "bad \xff byte"});
  const auto status = nlohmann::json::parse(ReadFile(run.path() / "status.json"));
  EXPECT_EQ(status.at("state"), "running");
  EXPECT_EQ(status.at("iter"), 5);
  EXPECT_TRUE(status.at("eta_s").is_null());
  EXPECT_EQ(status.at("best"), 0.5);
  EXPECT_EQ(status.at("pid"), getpid());
}

TEST_F(RunFolderTest, MetricsOfASupersededStretchAreLeftOut) {
  const RunFolder run = RunFolder::Create(At("runs"), Identity());
  for (const int i : {0, 10, 20}) run.AppendMetrics({.iteration = i}, "train", {{"loss", i}});
  run.AppendMetrics({.iteration = 10}, "test", {{"accuracy", 0.5}});
  run.AppendMetrics({.iteration = 20}, "test", {{"accuracy", 0.6}});
  run.AppendResult(10, 0, {{"accuracy", 0.5}});
  run.AppendResult(20, 0, {{"accuracy", 0.6}});
  std::ofstream(run.path() / "metrics.jsonl", std::ios::app) << "{\"iter\":30,\"spl";  // cut by a kill
  run.Rewind(10);
  run.AppendMetrics({.iteration = 10}, "train", {{"loss", NAN}});
  const std::vector<MetricLine> lines = ReadMetrics(run.path());
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].iteration, 0);
  EXPECT_EQ(lines[1].split, "test");  // the test at 10 belongs to the checkpoint of 10
  EXPECT_TRUE(std::isnan(lines[2].metrics.at(0).second));
  EXPECT_THAT(ReadFile(run.path() / "metrics.jsonl"), testing::HasSubstr("\"loss\":null,\"finite\":false"));
  EXPECT_EQ(ReadFile(run.path() / "results.csv"), "iter,epoch,accuracy\n10,0,0.5\n");
}

TEST_F(RunFolderTest, TheClockIsAKeyOfEachLineAndNoMetric) {
  const RunFolder run = RunFolder::Create(At("runs"), Identity());
  run.AppendMetrics({.iteration = 5, .epoch = 1, .clock_s = 2.00049}, "train", {{"loss", 3}});
  EXPECT_THAT(ReadFile(run.path() / "metrics.jsonl"), testing::HasSubstr("\"clock_s\":2.0,\"split\":\"train\""));
  const std::vector<MetricLine> lines = ReadMetrics(run.path());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].clock_s, 2);
  EXPECT_EQ(lines[0].metrics, (Metrics{{"loss", 3}}));
}

TEST_F(RunFolderTest, ResultsKeepTheFirstHeader) {
  const RunFolder run = RunFolder::Create(At("runs"), Identity());
  run.AppendResult(1, 0.5, {{"loss", 2}, {"a,b", 3}});
  run.AppendResult(2, 1, {{"loss", 1}, {"new", 9}});
  EXPECT_EQ(ReadFile(run.path() / "results.csv"), "iter,epoch,loss,a_b\n1,0.5,2,3\n2,1,1,\n");
}

TEST_F(RunFolderTest, BadNamesAndFoldersAreRefused) {
  for (const char* name : {"", "latest", ".hidden", "a/b", "a\nb"}) {
    RunIdentity identity = Identity();
    identity.name = name;
    EXPECT_EQ(ErrorOf([&] { RunFolder::Create(At("runs"), identity); }).kind, ErrorKind::kUsage) << name;
  }
  EXPECT_EQ(ErrorOf([&] { RunFolder::Open(At("none"), Identity()); }).kind, ErrorKind::kNoInput);
  fs::create_directories(At("broken"));
  std::ofstream(At("broken") / "run.json") << "no json";
  EXPECT_EQ(ErrorOf([&] { RunFolder::Open(At("broken"), Identity()); }).kind, ErrorKind::kBadData);
}

}  // namespace
}  // namespace moka
