// Files for schedulers against the texts kept beside this test, and the words that continue a run.
#include "tools/launch/job_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tools/launch/supervisor.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The golden text. One that should change is written anew by MOKA_WRITE_GOLDENS=1.
std::string Golden(const std::string& name, const std::string& now) {
  const fs::path file = fs::path(MOKA_SOURCE_DIR) / "tests/tools/launch" / name;
  if (std::getenv("MOKA_WRITE_GOLDENS") != nullptr) std::ofstream(file) << now;  // NOLINT(concurrency-mt-unsafe)
  return ReadFile(file);
}

JobFile EightRanks() {
  JobFile job;
  job.moka = "/opt/moka/moka";
  job.ranks = 8;
  job.nodes = 2;
  job.cpus_per_task = 4;
  job.gpus_per_node = 4;
  job.restarts = 3;
  job.time = "2:00:00";
  job.image = "registry.lan/moka:0.1.0";
  job.claim = "moka-work";
  return job;
}

LaunchedVerb Training() {
  return ReadLaunchedVerb({"train", "models/resnet50", "base_lr=0.1", "layer[conv1].name=\"c 1\"", "--gpu=0"});
}

TEST(JobFilesTest, TheBatchScriptIsTheGoldenOne) {
  const std::string text = SbatchText(EightRanks(), Training());
  EXPECT_EQ(text, Golden("job.sbatch", text));
}

TEST(JobFilesTest, TheManifestIsTheGoldenOne) {
  const std::string text = ManifestText(EightRanks(), Training());
  EXPECT_EQ(text, Golden("mpijob.yaml", text));
}

TEST(JobFilesTest, WhatIsNotAskedForIsLeftOut) {
  JobFile job;
  job.moka = "/m";
  job.image = "i";
  const LaunchedVerb verb = ReadLaunchedVerb({"version"});
  const std::string script = SbatchText(job, verb);
  for (const char* part : {"cpus", "gpus", "--time", "--restarts", "--resume"})
    EXPECT_EQ(script.find(part), std::string::npos) << part;
  const std::string manifest = ManifestText(job, verb);
  for (const char* part : {"resources", "persistentVolumeClaim", "workingDir"})
    EXPECT_EQ(manifest.find(part), std::string::npos) << part;
}

TEST(JobFilesTest, RanksMustDivideOverNodes) {
  JobFile job = EightRanks();
  job.ranks = 7;
  EXPECT_THROW(SbatchText(job, Training()), Error);
  job = EightRanks();
  job.image.clear();
  EXPECT_THROW(ManifestText(job, Training()), Error);
}

TEST(LaunchedRunTest, AResumedRunLeavesOutWhatItsFolderHolds) {
  const LaunchedVerb verb =
      ReadLaunchedVerb({"train", "models/lenet", "max_iter=5", "+test_iter=1", "--seed=3", "--run", "cut", "--runs=out",
                        "--weights=w.safetensors", "--kernels=listed", "--recompute"});
  EXPECT_EQ(verb.run_name, "cut");
  EXPECT_EQ(verb.runs, "out");
  EXPECT_EQ(Join(ResumingWords(verb, "out/cut-0002"), " "),
            "train --resume=out/cut-0002 --kernels=listed --recompute --runs=out");
}

TEST(LaunchedRunTest, ARequeuedJobHasARunOfItsOwn) {
  EXPECT_EQ(Join(RequeuedWords(ReadLaunchedVerb({"train", "models/lenet", "max_iter=5"}), "-j7"), " "),
            "train models/lenet max_iter=5 --run=lenet-j7 --resume=auto");
  EXPECT_EQ(Join(RequeuedWords(ReadLaunchedVerb({"version", "--json"}), "-j7"), " "), "version --json");
}

TEST(LaunchedRunTest, WordsAreCheckedBeforeAnythingStarts) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {}, {"trian", "x"}, {"train"}, {"train", "x", "--itertions=5"}, {"data", "inspct"}})
    EXPECT_THROW(ReadLaunchedVerb(words), Error) << Join(words, " ");
  EXPECT_TRUE(ReadLaunchedVerb({"train", "models/lenet", "--device=gpu"}).uses_gpus);
  EXPECT_FALSE(ReadLaunchedVerb({"train", "models/lenet", "--device=cpu"}).uses_gpus);
}

TEST(RestartTest, OnlyLostRanksAreWorthAnotherStart) {
  for (const int code : {76, 137, 139, 134, 143, 1, 205}) EXPECT_TRUE(IsRankLost(code)) << code;
  for (const int code : {0, 20, 21, 22, 64, 65, 66, 69, 70, 73, 74, 75, 77, 78, 130})
    EXPECT_FALSE(IsRankLost(code)) << code;
  EXPECT_EQ(EndText(137), "a rank was ended by signal 9 (Killed)");
}

TEST(RestartTest, ACheckpointIsCompleteOnlyWhereOneIs) {
  const fs::path run = fs::temp_directory_path() / StrCat("moka_end_text_", getpid());
  fs::remove_all(run);
  EXPECT_EQ(EndText(75), "the job was interrupted (exit code 75)");
  CreateFolders(run / "checkpoints");
  WriteFileAtomically(run / "checkpoints/iter_0000002.safetensors", "half");
  EXPECT_EQ(EndText(75, run), StrCat("the job was interrupted before its first checkpoint in ", run.string()));
  WriteFileAtomically(run / "checkpoints/iter_0000002.sha256", "sums");
  EXPECT_EQ(EndText(75, run), StrCat("the job was interrupted; its checkpoint is complete in ", run.string()));
  fs::remove_all(run);
}

}  // namespace
}  // namespace moka
