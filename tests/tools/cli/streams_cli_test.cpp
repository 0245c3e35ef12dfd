// Standard streams that are closed, broken or full, and files at their size limit: every verb says once what could not
// be written, and a training that only narrates goes on.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/tools/cli/every_verb_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

int64_t CountOf(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class StreamsTest : public EveryVerbTest {
 protected:
  // Descriptor 9 is a pipe whose reader has gone, for certain: `| true` may read first.
  static constexpr const char* kBrokenPipe = "mkfifo gone && exec 8<>gone 9>gone 8<&- && rm gone && ";
  static Outcome InBash(const std::string& line) {
    WriteFileAtomically(folder_ / "line.sh", line + "\n");
    return RunShell(StrCat("( cd '", folder_.string(), "' && OMP_NUM_THREADS=1 bash line.sh )"), folder_);
  }
  // Returns the outcome of line `i` with streams that work.
  static const Outcome& Usual(size_t i) {
    static const std::vector<Outcome> usual = [] {
      std::vector<Outcome> all;
      for (const VerbLine& line : Lines()) all.push_back(Run(line));
      return all;
    }();
    return usual.at(i);
  }
  static bool IsTriedInAllWays(const VerbLine& line) {
    return line.path == "explain" || line.path == "train" || line.path == "version";
  }
  static Outcome RunBroken(VerbLine line, const std::string& streams) {
    if (streams.ends_with("9")) line.undo = StrCat(kBrokenPipe, line.undo.empty() ? "true" : line.undo);
    return Run(line, {}, streams);
  }
  // Whatever a verb does with a stream, it ends by itself and never as if that were our defect.
  static void ExpectEnds(const Outcome& outcome, const std::string& what) {
    EXPECT_LT(outcome.code, 128) << what << " was ended by a signal";
    EXPECT_GE(outcome.code, 0) << what << " was ended by a signal";
    EXPECT_NE(outcome.code, 70) << what << "\n" << outcome.err;
  }
};

TEST_F(StreamsTest, EveryVerbWorksInItsFolder) {
  for (size_t i = 0; i < Lines().size(); ++i) {
    const std::vector<int> expected = Lines()[i].path == "zoo train" ? std::vector<int>{0, 66} : std::vector<int>{0};
    EXPECT_THAT(expected, testing::Contains(Usual(i).code)) << Lines()[i].line << "\n" << Usual(i).err;
  }
}

// One of the ways in which a stream can be broken for each verb, and all of them for some: what prints is one function.
TEST_F(StreamsTest, ResultsThatCannotBeWrittenAreOneErrorOfEveryVerb) {
  static const std::vector<std::string> ways = {">&-", ">/dev/full", ">&9"};
  for (size_t i = 0; i < Lines().size(); ++i) {
    const VerbLine& line = Lines()[i];
    for (size_t way = 0; way < ways.size(); ++way) {
      if (way != i % ways.size() && !IsTriedInAllWays(line)) continue;
      const Outcome outcome = RunBroken(line, ways[way]);
      const std::string what = StrCat("moka ", line.line, " ", ways[way]);
      ExpectEnds(outcome, what);
      if (Usual(i).code != 0) continue;  // it has told something else
      EXPECT_EQ(outcome.code, Usual(i).out.empty() ? 0 : 74) << what << "\n" << outcome.err;
      EXPECT_EQ(CountOf(outcome.err, "error: cannot write to standard output: "), Usual(i).out.empty() ? 0 : 1)
          << what << "\n"
          << outcome.err;
    }
  }
}

TEST_F(StreamsTest, NarrationThatCannotBeWrittenChangesNoResult) {
  static const std::vector<std::string> ways = {"2>&-", "2>/dev/full", "2>&9", "<&-"};
  for (size_t i = 0; i < Lines().size(); ++i) {
    const VerbLine& line = Lines()[i];
    for (size_t way = 0; way < ways.size(); ++way) {
      if (way != i % ways.size() && !IsTriedInAllWays(line)) continue;
      const Outcome outcome = RunBroken(line, ways[way]);
      EXPECT_EQ(outcome.code, Usual(i).code) << "moka " << line.line << " " << ways[way] << "\n" << outcome.err;
      EXPECT_EQ(outcome.out.empty(), Usual(i).out.empty()) << "moka " << line.line << " " << ways[way];
    }
  }
}

TEST_F(StreamsTest, EveryVerbsHelpIsAResultToo) {
  for (const auto& [path, verb] : RunningVerbs()) {
    const Outcome outcome = Run({verb, path, path}, "--help", ">/dev/full");
    EXPECT_EQ(outcome.code, 74) << path << "\n" << outcome.err;
    EXPECT_EQ(CountOf(outcome.err, "\n"), 1) << path << "\n" << outcome.err;
  }
}

TEST_F(StreamsTest, NoVerbDiesOfAFileSizeLimit) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer writes a file of its own before main, and dies of the limit";
#endif
  for (const VerbLine& line : Lines()) {
    // Narration and results go through a pipe, which has no size.
    const Outcome outcome = InBash(StrCat(line.undo.empty() ? "" : line.undo + "; ", "( ulimit -f 0; '", MOKA_BINARY,
                                          "' ", line.line, "; echo $? >&7 ) 7>&1 2>&1 | cat"));
    const size_t last = outcome.out.find_last_not_of('\n');
    const int code = std::atoi(outcome.out.substr(outcome.out.rfind('\n', last) + 1).c_str());
    EXPECT_THAT((std::vector<int>{0, 22, 66, 73, 74}), testing::Contains(code)) << line.line << "\n" << outcome.out;
  }
}

TEST_F(StreamsTest, ATrainingGoesOnWithoutItsStreamsAndEndsTheSame) {
  const auto train = [&](const std::string& name, const std::string& streams) {
    const std::string words =
        StrCat("train conv_solver.prototxt --device cpu max_iter=6 snapshot=3 --progress=lines --run ", name);
    return Run({nullptr, "train", words, StrCat(kBrokenPipe, "true")}, {}, streams);
  };
  ASSERT_EQ(train("usual", "").code, 0);
  const std::string usual = ReadFile(folder_ / "runs/usual-0001/checkpoints/iter_0000006.safetensors");
  int number = 0;
  for (const std::string streams : {">&- 2>&-", "<&- >&- 2>&-", ">&9 2>&9", ">/dev/full 2>/dev/full"}) {
    const std::string name = StrCat("streams", number++);
    EXPECT_EQ(train(name, streams).code, 0) << streams;
    const fs::path run = folder_ / "runs" / (name + "-0001");
    EXPECT_EQ(ReadFile(run / "checkpoints/iter_0000006.safetensors"), usual) << streams;
    EXPECT_THAT(ReadFile(run / "log.txt"), HasSubstr("Optimization Done.")) << streams;
    EXPECT_THAT(ReadFile(run / "status.json"), HasSubstr("\"state\": \"finished\"")) << streams;
  }
}

// `blocks` of 1,024 bytes are the largest file that a training may write.
Outcome TrainWithin(int blocks, const std::string& words, const fs::path& folder) {
  WriteFileAtomically(folder / "line.sh", StrCat("( ulimit -f ", blocks, "; OMP_NUM_THREADS=1 '", MOKA_BINARY,
                                                 "' train ", words, " ) 2>&1 | cat; exit ${PIPESTATUS[0]}\n"));
  return RunShell(StrCat("( cd '", folder.string(), "' && bash line.sh )"), folder);
}

TEST_F(StreamsTest, ALogAtItsLimitEndsATrainingAndLeavesItsLastCheckpoint) {
  const Outcome ended = TrainWithin(48, "solver.prototxt --run log --device cpu max_iter=5000 snapshot=20", folder_);
  EXPECT_EQ(ended.code, 74) << ended.out;
  EXPECT_EQ(CountOf(ended.out, "error: "), 1) << ended.out;
  EXPECT_THAT(ended.out, HasSubstr("File too large"));
  EXPECT_THAT(ReadFile(folder_ / "runs/log-0001/status.json"), HasSubstr("\"exit_code\": 74"));
  const Outcome resumed = Moka("train --resume=log-0001 max_iter=200 display=100");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming at iteration "));
}

TEST_F(StreamsTest, ACheckpointAtItsLimitLeavesTheOneBefore) {
  const std::string words = "conv_solver.prototxt --run big --device cpu layer[conv].convolution_param.num_output=300 ";
  ASSERT_EQ(Moka(StrCat("train ", words, "max_iter=2")).code, 0);
  const Outcome ended = TrainWithin(64, "--resume=big-0001 max_iter=4 --device cpu", folder_);
  EXPECT_EQ(ended.code, 74) << ended.out;
  EXPECT_EQ(CountOf(ended.out, "error: "), 1) << ended.out;
  EXPECT_THAT(ended.out, HasSubstr("iter_0000004.safetensors: File too large"));
  EXPECT_EQ(Moka("test big-0001@last").code, 0) << "the checkpoint of before";
  const Outcome resumed = Moka("train --resume=big-0001 max_iter=4 --device cpu");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming at iteration 2"));
}

// A file in a folder's place stands for a disk that is full or gone: root could write into a folder without permission.
// The training is longer than any machine needs to break its files, and is ended once it has said what it goes without.
TEST_F(StreamsTest, WhatATrainingDrawsIsAWarningOnceWhereItCannot) {
  const std::string words =
      "train conv_solver.prototxt --run drawn --device cpu base_lr=1e-5 test_interval=20 display=5 max_iter=";
  const fs::path run = folder_ / "runs/drawn-0001";
  const auto until = [](const std::string& condition) {
    return StrCat("for i in $(seq 3000); do ", condition, " && break; kill -0 $moka 2>/dev/null || break; ",
                  "sleep 0.02; done\n");
  };
  WriteFileAtomically(folder_ / "line.sh",
                      StrCat("OMP_NUM_THREADS=1 '", MOKA_BINARY, "' ", words, "1000000 & moka=$!\n",
                             until(StrCat("[ -e '", run.string(), "/results.csv' ]")), "kill -STOP $moka\nrm -r '",
                             run.string(), "/plots'; echo > '", run.string(), "/plots'; rm '", run.string(),
                             "/results.csv'; mkdir '", run.string(), "/results.csv'\nkill -CONT $moka\n",
                             until("grep -qs 'without plots: ' err.txt && grep -qs 'without results.csv: ' err.txt"),
                             "kill -TERM $moka; wait $moka\n"));
  const Outcome ended = RunShell(StrCat("( cd '", folder_.string(), "' && bash line.sh )"), folder_);
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_EQ(CountOf(ended.err, "warning: the training goes on without plots: "), 1) << ended.err;
  EXPECT_EQ(CountOf(ended.err, "warning: the training goes on without results.csv: "), 1) << ended.err;
  std::error_code code;
  const std::string last = fs::read_symlink(run / "checkpoints/last", code).string();
  ASSERT_EQ(last.find("iter_"), 0U) << last << "\n" << ended.err;
  const Outcome usual = Moka(words + std::to_string(std::stoll(last.substr(5))));
  ASSERT_EQ(usual.code, 0) << usual.err;
  EXPECT_EQ(ReadFile(run / "checkpoints" / last), ReadFile(folder_ / "runs/drawn-0002/checkpoints" / last));
}

}  // namespace
}  // namespace moka
