// Checkpoints come back whole; damage, missing parts and litter are told and pruned.
#include "optim/checkpoint/checkpoint.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "checkpoint_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

TEST_F(CheckpointTest, ComesBackWhole) {
  const fs::path path = Write(120);
  EXPECT_EQ(path.filename(), "iter_0000120");
  const Checkpoint checkpoint = LoadCheckpoint(path);
  EXPECT_EQ(checkpoint.trainer, Content(120).trainer);
  EXPECT_EQ(checkpoint.solver_text, "base_lr: 0.1\n");
  EXPECT_EQ(checkpoint.net_text, "name: \"tiny\"\n");
  ASSERT_EQ(checkpoint.slots.size(), 1U);
  EXPECT_EQ(checkpoint.slots[0].first, "ip/0/@history");
  EXPECT_EQ(checkpoint.slots[0].second.shape, (Shape{2, 3}));
  EXPECT_EQ(ResumeFrom(folder_), 120);
}

TEST_F(CheckpointTest, AnyOfItsNamesLoadsIt) {
  Write(5, true);
  for (const char* name :
       {"iter_0000005", "iter_0000005.state", "iter_0000005.safetensors", "iter_0000005.sha256", "last", "best"}) {
    EXPECT_EQ(LoadCheckpoint(folder_ / name).trainer.iteration, 5) << name;
  }
}

TEST_F(CheckpointTest, TheManifestIsOneThatSha256sumReads) {
  Write(5);
  EXPECT_EQ(std::system(StrCat("cd ", folder_.string(), " && sha256sum -c --quiet iter_0000005.sha256").c_str()), 0);
}

TEST_F(CheckpointTest, TheLastFewAndTheBestAreKept) {
  for (int64_t i = 1; i <= 6; ++i) Write(i, i == 2, {.keep_last = 2, .keep_best = true});
  EXPECT_EQ(Files(), (std::vector<std::string>{"best", "iter_0000002.safetensors", "iter_0000002.sha256",
                                               "iter_0000002.state", "iter_0000005.safetensors", "iter_0000005.sha256",
                                               "iter_0000005.state", "iter_0000006.safetensors", "iter_0000006.sha256",
                                               "iter_0000006.state", "last"}));
  EXPECT_EQ(fs::read_symlink(folder_ / "best"), "iter_0000002.safetensors");
  EXPECT_EQ(fs::read_symlink(folder_ / "last"), "iter_0000006.safetensors");
}

TEST_F(CheckpointTest, NeverFewerThanTwoStay) {
  for (int64_t i = 1; i <= 3; ++i) Write(i, false, {.keep_last = 1, .keep_best = false});
  fs::remove(folder_ / "iter_0000003.state");
  EXPECT_EQ(ResumeFrom(folder_), 2);
}

TEST_F(CheckpointTest, KeepLastZeroKeepsAll) {
  for (int64_t i = 1; i <= 5; ++i) Write(i, false, {.keep_last = 0, .keep_best = false});
  EXPECT_EQ(Files().size(), 5U * 3U + 1U);
}

TEST_F(CheckpointTest, LitterOfKilledWritersGoes) {
  std::ofstream(folder_ / "iter_0000001.state.tmp999") << "cut";
  std::ofstream(folder_ / "iter_0000001.safetensors") << "no manifest";
  std::ofstream(folder_ / "notes.txt") << "mine";
  Write(2);
  EXPECT_EQ(Files(), (std::vector<std::string>{"iter_0000002.safetensors", "iter_0000002.sha256", "iter_0000002.state",
                                               "last", "notes.txt"}));
}

TEST_F(CheckpointTest, AMissingPartIsNamed) {
  const fs::path path = Write(3);
  fs::remove(folder_ / "iter_0000003.state");
  const Caught state = ErrorOf([&] { LoadCheckpoint(path); });
  EXPECT_EQ(state.kind, ErrorKind::kNoInput);
  EXPECT_THAT(state.text, testing::HasSubstr("iter_0000003.state"));
  fs::remove(folder_ / "iter_0000003.sha256");
  EXPECT_THAT(ErrorOf([&] { LoadCheckpoint(path); }).text, testing::HasSubstr("no complete checkpoint"));
}

TEST_F(CheckpointTest, PartsOfTwoCheckpointsDoNotMix) {
  Write(1);
  Write(2);
  fs::copy_file(folder_ / "iter_0000001.safetensors", folder_ / "iter_0000002.safetensors",
                fs::copy_options::overwrite_existing);
  const Caught caught = ErrorOf([&] { LoadCheckpoint(folder_ / "iter_0000002"); });
  EXPECT_EQ(caught.kind, ErrorKind::kBadData);
  EXPECT_THAT(caught.text, testing::HasSubstr("SHA-256 of iter_0000002.safetensors"));
  EXPECT_EQ(ResumeFrom(folder_), 1);
}

TEST_F(CheckpointTest, NewerOnesAreSetAsideOnResume) {
  for (int64_t i = 1; i <= 3; ++i) Write(i, i == 3);
  SetAsideNewer(folder_, 2, 1);
  EXPECT_EQ(ResumeFrom(folder_), 2);
  EXPECT_EQ(fs::read_symlink(folder_ / "last"), "iter_0000002.safetensors");
  EXPECT_EQ(fs::read_symlink(folder_ / "best"), "iter_0000001.safetensors");
  EXPECT_TRUE(fs::exists(folder_ / "iter_0000003.state.refused"));
}

TEST_F(CheckpointTest, PlantedThingsAreReplacedOrRefused) {
  Write(1);
  std::ofstream(folder_ / "victim") << "precious";
  fs::create_symlink("victim", folder_ / "iter_0000002.state");
  mkfifo((folder_ / "iter_0000002.safetensors").c_str(), 0600);
  fs::create_symlink("victim", folder_ / StrCat("iter_0000002.state.tmp", getpid()));
  Write(2);
  EXPECT_EQ(ResumeFrom(folder_), 2);
  EXPECT_EQ(ReadFile(folder_ / "victim"), "precious");
  fs::create_directories(folder_ / "iter_0000003.state" / "full");
  const Caught caught = ErrorOf([&] { Write(3); });
  EXPECT_EQ(caught.kind, ErrorKind::kIo);
  EXPECT_THAT(caught.text, testing::HasSubstr("iter_0000003.state"));
  EXPECT_EQ(ResumeFrom(folder_), 2);
}

TEST_F(CheckpointTest, AFifoInPlaceOfAFileIsRefusedNotWaitedFor) {
  const fs::path path = Write(1);
  fs::remove(folder_ / "iter_0000001.state");
  mkfifo((folder_ / "iter_0000001.state").c_str(), 0600);
  EXPECT_THAT(ErrorOf([&] { LoadCheckpoint(path); }).text, testing::HasSubstr("not a regular file"));
}

TEST_F(CheckpointTest, AFullDiskAtAnySizeLeavesTheOldOne) {
  Write(1);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit former{};
  getrlimit(RLIMIT_FSIZE, &former);
  int failures = 0;
  for (rlim_t limit = 0; limit < 1600; limit += 16) {
    rlimit small = former;
    small.rlim_cur = limit;
    setrlimit(RLIMIT_FSIZE, &small);
    bool failed = false;
    try {
      Write(2);
    } catch (const Error& e) {
      failed = true;
      EXPECT_EQ(e.kind(), ErrorKind::kIo) << e.what();
    }
    setrlimit(RLIMIT_FSIZE, &former);
    failures += failed ? 1 : 0;
    ASSERT_EQ(ResumeFrom(folder_), failed ? 1 : 2) << limit;
  }
  EXPECT_GT(failures, 20);
  EXPECT_LT(failures, 100);
}

TEST_F(CheckpointTest, AReadOnlyOrMissingParentIsCannotCreate) {
  std::ofstream(folder_ / "file") << "x";
  const CheckpointContent content = Content(1);
  EXPECT_EQ(ErrorOf([&] { WriteCheckpoint(folder_ / "file" / "below", content, false, {}); }).kind,
            ErrorKind::kCantCreate);
}

TEST(TrainerStateTest, MistakesInTheJsonAreNamed) {
  TrainerState state;
  state.iteration = 9;
  EXPECT_EQ(TrainerStateFromJson(ToJson(state), "x"), state);
  const auto error = [](const std::string& json) { return ErrorOf([&] { TrainerStateFromJson(json, "x"); }).text; };
  EXPECT_THAT(error("{"), testing::StartsWith("x: not a trainer's state"));
  EXPECT_THAT(error("[]"), testing::StartsWith("x: not a trainer's state"));
  EXPECT_THAT(error("{\"iteration\": -1}"), testing::HasSubstr("iteration is -1"));
  EXPECT_THAT(error("{\"iteration\": \"a\"}"), testing::HasSubstr("not a trainer's state"));
}

TEST(TrainerStateTest, TheClockIsKeptAndOlderStatesHaveNone) {
  TrainerState state;
  const std::string without = ToJson(state);
  EXPECT_THAT(without, testing::Not(testing::HasSubstr("clock_s")));
  EXPECT_EQ(TrainerStateFromJson(without, "x").clock_s, 0);
  state.clock_s = 12.3456789;
  std::string json = ToJson(state);
  EXPECT_EQ(TrainerStateFromJson(json, "x").clock_s, 12.3456789);
  json.replace(json.find("12.34"), 1, "-1");
  EXPECT_THAT(ErrorOf([&] { TrainerStateFromJson(json, "x"); }).text, testing::HasSubstr("clock_s is -12"));
}

}  // namespace
}  // namespace moka
