// A training goes on with any number of ranks after any other, whatever Moka rewrites in the net for its own use, and
// says nothing of what has not changed; ranks of several working folders share the run's.
#include "optim/checkpoint/checkpoint.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/ranks/two_programs.h"

namespace moka {
namespace {

class ResumedRanksTest : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    // Layers without a name, one name twice, statistics over ranks by a number and over all, and a batch to divide.
    WriteFileAtomically(folder_ / "net.prototxt", R"(
      name: "rewritten"
      layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
        shape { dim: 8 dim: 3 dim: 4 dim: 4 } shape { dim: 8 }
        data_filler { type: "gaussian" } data_filler { type: "constant" } } }
      layer { type: "Convolution" bottom: "data" top: "c"
              convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "msra" } } }
      layer { name: "bn" type: "BatchNorm" bottom: "c" top: "b" batch_norm_param { sync_ranks: 0 } }
      layer { name: "bn" type: "BatchNorm" bottom: "b" top: "b2" batch_norm_param { sync_ranks: 2 } }
      layer { type: "ReLU" bottom: "b2" top: "b2" }
      layer { name: "ip" type: "InnerProduct" bottom: "b2" top: "ip"
              inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
      layer { name: "ip" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
    WriteFileAtomically(folder_ / "solver.prototxt",
                        "net: \"net.prototxt\" base_lr: 0.01 lr_policy: \"fixed\" momentum: 0.9 max_iter: 2 display: 1 "
                        "snapshot: 100 random_seed: 3");
  }
  static std::string NetOf(const std::string& run) {
    return LoadCheckpoint(folder_ / "runs" / run / "checkpoints/iter_0000005").net_text;
  }
};

TEST_F(ResumedRanksTest, OneTwoAndOneRankGoOnWithEachOther) {
  for (const int first : {1, 2}) {
    const std::string run = StrCat("from", first);
    const Outcome begun = Moka(StrCat("train solver.prototxt --threads=1 --run=", run, " --ranks=", first));
    ASSERT_EQ(begun.code, 0) << begun.err;
    for (int i = 1; i <= 3; ++i) {
      const int ranks = i % 2 == 0 ? first : 3 - first;  // the other number, the first and the other again
      const Outcome resumed =
          Moka(StrCat("train --resume=", run, "-0001 --threads=1 max_iter=", 2 + i, " --ranks=", ranks));
      ASSERT_EQ(resumed.code, 0) << first << " " << i << ": " << resumed.err;
    }
  }
  EXPECT_EQ(NetOf("from1-0001"), NetOf("from2-0001")) << "written by two ranks and by one";
  EXPECT_NE(NetOf("from1-0001").find("sync_ranks: 0"), std::string::npos);
  EXPECT_NE(NetOf("from2-0001").find("name: \"bn#2\""), std::string::npos);
}

TEST_F(ResumedRanksTest, ThreadsThatHaveNotChangedAreNotTold) {
  const auto moka = [](const std::string& words) {
    return RunShell(StrCat("cd '", folder_.string(), "' && unset OMP_NUM_THREADS; '", MOKA_BINARY, "' train ", words),
                    folder_);
  };
  ASSERT_EQ(moka("solver.prototxt --run=shared --ranks=2").code, 0);
  const Outcome resumed = moka("--resume=shared-0001 max_iter=4");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("--ranks=2, as the run was started"), std::string::npos) << resumed.err;
  EXPECT_EQ(resumed.err.find("bit for bit"), std::string::npos) << resumed.err;
}

class SharedFolderTest : public ResumedRanksTest {
 protected:
  static Outcome Both(const std::string& words, const std::string& first, const std::string& second) {
    const std::string moka = StrCat("'", MOKA_BINARY, "' train --threads=1 ", words);
    const std::string line = UnderMpirun(first + moka, second + moka, folder_);
    return RunShell(StrCat("cd '", folder_.string(), "' && ", line), folder_);
  }
};

TEST_F(SharedFolderTest, RanksOfTwoWorkingFoldersKeepOneRun) {
  fs::create_directories(folder_ / "elsewhere");
  for (const char* file : {"net.prototxt", "solver.prototxt"}) fs::copy(folder_ / file, folder_ / "elsewhere" / file);
  const Outcome outcome = Both("solver.prototxt --run=two", "", "-C elsewhere ");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / "runs/two-0001/log.rank1.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere/runs"));
  for (const auto& entry : fs::directory_iterator(folder_ / "runs")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
}

TEST_F(SharedFolderTest, ARankThatDoesNotReachTheRunsIsToldBeforeOneIsMade) {
  if (RunShell("unshare -m true", folder_).code != 0) GTEST_SKIP() << "no folder can be hidden from one process here";
  fs::create_directories(folder_ / "kept");
  const std::string hidden =
      StrCat("unshare -m sh -c \"mount -t tmpfs none '", (folder_ / "kept").string(), "' && exec \\\"\\$@\\\"\" sh ");
  const Outcome outcome = Both("solver.prototxt --run=lost --runs=kept", "", hidden);
  EXPECT_TRUE(outcome.code == 73 || outcome.code == 76) << outcome.err;  // mpirun's is that of the rank that ends first
  EXPECT_NE(outcome.err.find(StrCat("does not reach ", (folder_ / "kept").string(), ", where the first rank keeps")),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("ranks need one folder for runs"), std::string::npos) << outcome.err;
  EXPECT_TRUE(fs::is_empty(folder_ / "kept")) << "no run begins";
}

}  // namespace
}  // namespace moka
