// The content of a run's folder when its training is stopped at a bad moment: in a test, while it starts, on a resume
// that is refused, with the folder gone.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "core/error.h"
#include "tests/sanitized.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class RunStates : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    Write("net.prototxt",
          "layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: 2 dim: 4 } shape { "
          "dim: 2 } data_filler { type: 'uniform' } data_filler { type: 'constant' } } }\n"
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 "
          "weight_filler { type: 'xavier' } } }\n"
          "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'l' }\n");
    Write("solver.prototxt",
          "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 snapshot: 2 display: 1 test_iter: 2 "
          "test_interval: 2 random_seed: 1");
  }
  static void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  static Json StatusOf(const std::string& run) { return Json::parse(ReadFile(folder_ / "runs" / run / "status.json")); }
  static constexpr const char* kEndless = " max_iter=2000000000 snapshot=0 display=1000 test_interval=1000000000";

  // Everything in a folder, but for the lock, which says who looked last.
  static std::map<std::string, std::string> Contents(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().lexically_relative(folder).string();
      if (name == "lock") continue;
      files[name] = entry.is_symlink()        ? fs::read_symlink(entry.path()).string()
                    : entry.is_regular_file() ? ReadFile(entry.path())
                                              : std::string("a folder");
    }
    return files;
  }
};

TEST_F(RunStates, TheClockEndsATestAndAnAccumulation) {
  struct Case {
    const char* run;
    std::string fields;
  };
  for (const Case& each : {Case{"test", "'test_iter=[2147483647]'"},
                           Case{"parts", "iter_size=2147483647 test_initialization=false max_iter=1"}}) {
    const Outcome cut =
        Moka(StrCat("train solver.prototxt --run ", each.run, " --max-time 1s ", each.fields), "timeout 60");
    EXPECT_EQ(cut.code, static_cast<int>(ErrorKind::kInterrupted)) << cut.err;
    const Json status = StatusOf(StrCat(each.run, "-0001"));
    EXPECT_EQ(status.at("state"), "interrupted");
    EXPECT_EQ(status.at("last_checkpoint"), "checkpoints/iter_0000000");
    const Outcome asked = MokaStopped(StrCat("train --resume=", each.run, "-0001"), "grep -q 'resuming at' err.txt");
    EXPECT_EQ(asked.code, static_cast<int>(ErrorKind::kInterrupted)) << asked.err;
  }
  const Outcome resumed = Moka("train --resume=test-0001 test_initialization=false test_interval=1000000");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(RunStates, ASecondInterruptIsInTheStatus) {
  const std::string line = StrCat(
      "cd '", folder_.string(), "' && { OMP_NUM_THREADS=1 '", MOKA_BINARY,
      "' train solver.prototxt --run twice --sigint_effect=stop 'test_iter=[2147483647]' test_interval=1",
      " >out.txt 2>err.txt </dev/null & moka=$!; while kill -0 $moka && ! grep -q Testing runs/twice-0001/log.txt; do ",
      "sleep 0.05; done; kill -STOP $moka; kill -INT $moka; kill -CONT $moka; kill -INT $moka; wait $moka; } "
      "2>shell.txt");
  const int status = std::system(line.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  const int code = WEXITSTATUS(status);
  EXPECT_TRUE(code == 130 || code == 75) << code;  // 75: the first was answered before the second came
  EXPECT_EQ(StatusOf("twice-0001").at("state"), "interrupted");
  EXPECT_EQ(StatusOf("twice-0001").at("exit_code"), code);
}

TEST_F(RunStates, AFolderThatIsGoneEndsTheTraining) {
  const auto lost = [](const std::string& run, const std::string& action) {
    const std::string line = StrCat(
        "cd '", folder_.string(), "' && { OMP_NUM_THREADS=1 '", MOKA_BINARY, "' train solver.prototxt --run ", run,
        kEndless, " >out.txt 2>err.txt </dev/null & moka=$!; while kill -0 $moka && ! grep -q Iteration runs/", run,
        "-0001/log.txt; do sleep 0.05; done; ", action, "; wait $moka; } 2>shell.txt");
    const int status = std::system(line.c_str());
    const std::string said = ReadFile(folder_ / "err.txt");
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, static_cast<int>(ErrorKind::kIo)) << run << ": " << said;
    EXPECT_NE(said.find("removed or replaced while it was trained in"), std::string::npos) << said;
    EXPECT_EQ(said.find("resume: moka train"), std::string::npos) << said;
  };
  // A file that is made while rm is at work keeps the folder from it.
  lost("removed", "until rm -rf runs/removed-0001; do :; done");
  EXPECT_FALSE(fs::exists(folder_ / "runs" / "removed-0001"));
  lost("renamed", "mv runs/renamed-0001 runs/elsewhere");
  EXPECT_FALSE(fs::exists(folder_ / "runs" / "renamed-0001"));
  EXPECT_TRUE(fs::exists(folder_ / "runs" / "elsewhere" / "run.json"));
}

TEST_F(RunStates, ARefusedResumeLeavesTheRunAsItWas) {
  ASSERT_EQ(Moka("train solver.prototxt --run kept max_iter=2").code, 0);
  const fs::path run = folder_ / "runs" / "kept-0001";
  const std::map<std::string, std::string> before = Contents(run);
  for (const char* change : {"max_iter=2", "base_lr=5", "max_iter=4 target_metric=none target_value=1",
                             "max_iter=4 layer[ip].inner_product_param.num_output=3", "max_iter=4 eval_type=x",
                             "max_iter=4 'test_iter=[1,2]'", "max_iter=4 --weights none"}) {
    const Outcome refused = Moka(StrCat("train --resume=kept-0001 ", change));
    EXPECT_GT(refused.code, 0) << change;
    EXPECT_EQ(Contents(run), before) << change << ": " << refused.err;
  }
  EXPECT_EQ(Moka("train --resume=kept-0001 max_iter=4").code, 0);
}

// A limit of file sizes is met by one file after the other of those that a start writes.
TEST_F(RunStates, WhatEndsAStartIsInTheStatus) {
  int failed = 0;
  for (int blocks = 0; blocks <= 8; ++blocks) {
    const Outcome outcome = Moka(StrCat("train solver.prototxt --run tight", blocks),
                                 StrCat("TMPDIR=/tmp sh -c 'ulimit -f ", blocks, "; exec \"$0\" \"$@\"'"));
    const fs::path run = folder_ / "runs" / StrCat("tight", blocks, "-0001");
    if (outcome.code == 0) continue;
    ++failed;
    if (!fs::exists(run)) continue;
    EXPECT_TRUE(fs::exists(run / "run.json")) << blocks;
    const Json status = StatusOf(run.filename().string());
    EXPECT_EQ(status.at("state"), "failed") << blocks << ": " << outcome.err;
    EXPECT_EQ(status.at("exit_code"), outcome.code) << blocks;
    const bool has_checkpoint = !ListFiles(run / "checkpoints", ".sha256").empty();
    EXPECT_EQ(status.at("last_checkpoint").is_string(), has_checkpoint) << blocks << ": " << outcome.err;
    if (has_checkpoint) {
      EXPECT_EQ(status.at("max_iter"), 4) << blocks;
    }
  }
  EXPECT_GT(failed, 2);
}

// Stacks as large as half the memory there may be: one thread gets one, the next does not.
TEST_F(RunStates, AThreadThatCannotBeStartedIsNamed) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers reserve more memory than the limit";
  const std::string tight = "timeout 60 sh -c 'ulimit -s 3000000 && ulimit -v 5000000 || exit 99; exec \"$0\" \"$@\"'";
  const Outcome outcome = Moka("train solver.prototxt --run threads --ranks=3 'test_iter=[3]'", tight);
  if (outcome.code == 99) GTEST_SKIP() << "the limit of stacks cannot be set here";
  EXPECT_EQ(outcome.code, static_cast<int>(ErrorKind::kUnavailable)) << outcome.err;
  EXPECT_NE(outcome.err.find("error: cannot start thread "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" of 3: "), std::string::npos) << outcome.err;
}

TEST_F(RunStates, BrokenRecordsAreTold) {
  ASSERT_EQ(Moka("train solver.prototxt --run told max_iter=2").code, 0);
  const fs::path run = folder_ / "runs" / "told-0001";
  const auto resumed_with = [&](const std::string& file, const std::string& text) {
    const fs::path copy = folder_ / "copy";
    fs::remove_all(copy);
    fs::copy(run, copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::remove(copy / file);
    if (!text.empty()) std::ofstream(copy / file) << text;
    const Outcome outcome = Moka("train --resume=copy max_iter=4");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  const std::string metrics = ReadFile(run / "metrics.jsonl");
  const std::string results = ReadFile(run / "results.csv");
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string whole = resumed_with("metrics.jsonl", metrics + "{\"iter\":7,\"spl");
  EXPECT_FALSE(has(whole, "no record")) << "a kill cuts the last line: " << whole;
  const auto lines = std::to_string(std::ranges::count(metrics, '\n') + 1);
  EXPECT_TRUE(
      has(resumed_with("metrics.jsonl", metrics + "garbage\n"), StrCat("metrics.jsonl:", lines, ":1: this line")));
  EXPECT_TRUE(has(resumed_with("metrics.jsonl", ""), "metrics.jsonl is gone"));
  EXPECT_TRUE(has(resumed_with("scaling.jsonl", "nothing\n"), "scaling.jsonl:1:1: this line"));
  EXPECT_TRUE(has(resumed_with("results.csv", ""), "results.csv is gone"));
  EXPECT_TRUE(has(resumed_with("results.csv", results + "x,y,z\n"), "results.csv:4:1: this line"));
  EXPECT_EQ(ReadFile(folder_ / "copy" / "results.csv").find("x,y,z"), std::string::npos);
  EXPECT_TRUE(has(resumed_with("results.csv", "other,header\n" + results), "results.csv:1:1: expected the header"));
  EXPECT_TRUE(fs::exists(folder_ / "copy" / "results.csv.refused"));
}

TEST_F(RunStates, ResultsThatCannotBeWrittenAreAnError) {
  for (const char* words : {"help", "--help", "--version", "train --help", "version"}) {
    EXPECT_EQ(std::system(StrCat("'", MOKA_BINARY, "' ", words, " >/dev/full 2>/dev/null").c_str()) >> 8,
              static_cast<int>(ErrorKind::kIo))
        << words;
  }
}

TEST_F(RunStates, ACacheWithoutAPlaceOrWithoutSenseIsTold) {
  Write("conv.prototxt",
        "net_param { layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 dim: 8 dim: 9 dim: "
        "9 } } } layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' loss_weight: 1 convolution_param { "
        "num_output: 8 kernel_size: 3 } } } base_lr: 0.1 lr_policy: 'fixed' max_iter: 1");
  const std::string train = "train conv.prototxt --run cached --kernels fastest";
  const Outcome placeless = Moka(train, "env -u HOME -u XDG_CACHE_HOME");
  EXPECT_NE(placeless.err.find("times of kernels are not kept"), std::string::npos) << placeless.err;
  const Outcome relative = Moka(train, "HOME=here XDG_CACHE_HOME=there");
  EXPECT_NE(relative.err.find("times of kernels are not kept"), std::string::npos) << relative.err;
  EXPECT_FALSE(fs::exists(folder_ / "here") || fs::exists(folder_ / "there"));
  const std::string cache = StrCat("XDG_CACHE_HOME='", (folder_ / "cache").string(), "'");
  ASSERT_EQ(Moka(train, cache).code, 0);
  const std::vector<fs::path> files = ListFiles(folder_ / "cache" / "moka", ".tsv");
  ASSERT_EQ(files.size(), 1U);
  std::ofstream(files[0], std::ios::app) << "garbage\nx\ty\n";
  const Outcome strange = Moka(train, cache);
  EXPECT_EQ(strange.code, 0);
  EXPECT_NE(strange.err.find("2 lines are no times of kernels"), std::string::npos) << strange.err;
  fs::resize_file(files[0], uintmax_t{5} << 30U);
  const Outcome sparse = Moka(train, StrCat(cache, " timeout 30"));
  EXPECT_EQ(sparse.code, 0) << sparse.err;
  EXPECT_NE(sparse.err.find("times of kernels are neither read nor kept"), std::string::npos) << sparse.err;
}

}  // namespace
}  // namespace moka
