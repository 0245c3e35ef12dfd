// Ranks whose settings, data, build or flags differ are told which field differs on which rank before the first step,
// and ranks that differ in what is their own train together.
#include <ostream>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/ranks/two_programs.h"

namespace moka {
namespace {

// The words and files that the second of two ranks has and the first has not.
struct Difference {
  const char* name;
  const char* words;        // more of rank 1's command line
  const char* field;        // that the refusal names
  const char* before = "";  // words in front of rank 1's program: an environment
  const char* program = MOKA_BINARY;
};

void PrintTo(const Difference& difference, std::ostream* out) { *out << difference.name; }

class RanksDifferTest : public CliTest, public testing::WithParamInterface<Difference> {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    ASSERT_EQ(Moka("data import glyphs:40:1 a").code, 0);
    ASSERT_EQ(Moka("data import glyphs:40:2 b").code, 0);
    ASSERT_EQ(Moka("data import glyphs:41:1 c").code, 0);
    fs::copy(folder_ / "a", folder_ / "same", fs::copy_options::recursive);
    WriteFileAtomically(folder_ / "net.prototxt", R"(
      name: "small"
      layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.004 }
              data_param { source: "a" batch_size: 8 backend: LMDB shuffle: true } }
      layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" param { lr_mult: 1 }
              inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
      layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
    WriteFileAtomically(folder_ / "solver.prototxt",
                        "net: \"net.prototxt\" base_lr: 0.01 lr_policy: \"step\" gamma: 0.5 stepsize: 2 momentum: 0.9 "
                        "max_iter: 3 display: 1 snapshot: 10 random_seed: 3");
    ASSERT_EQ(Moka("train solver.prototxt --run first").code, 0);
    ASSERT_EQ(Moka("train solver.prototxt --run second random_seed=4").code, 0);
    // Another build of the same: a program with other bytes.
    fs::copy_file(MOKA_BINARY, folder_ / "other");
    std::string bytes = ReadFile(folder_ / "other");
    WriteFileAtomically(folder_ / "other", bytes + "x");
    fs::permissions(folder_ / "other", fs::perms::owner_all);
  }
  static std::string Words(const std::string& more) {
    const std::string run = more.starts_with("--resume") ? "" : "--run r ";  // the two exclude each other
    const std::string threads = more.starts_with("--threads") ? "" : "--threads=1 ";
    return StrCat(" train solver.prototxt ", run, threads, more);
  }
  static Outcome Both(const std::string& first, const std::string& second) {
    const std::string line = UnderMpirun(first, second, folder_);
    return RunShell(StrCat("cd '", folder_.string(), "' && rm -rf runs/r-0001 && ", line), folder_);
  }
  static std::string Program() { return StrCat("'", MOKA_BINARY, "'"); }
};

TEST_P(RanksDifferTest, AreRefusedByFieldAndRank) {
  const Difference& difference = GetParam();
  const Outcome outcome =
      Both(Program() + Words(""), StrCat(difference.before, " '", difference.program, "' ", Words(difference.words)));
  EXPECT_EQ(outcome.code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find(StrCat("rank 1: ", difference.field)), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(", rank 0 has "), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "runs/r-0001")) << "no run begins";
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RanksDifferTest,
    testing::Values(
        Difference{"Momentum", "momentum=0.8", "solver.momentum is 0.8"},
        Difference{"Rate", "base_lr=0.02", "solver.base_lr is 0.02"},
        Difference{"Length", "max_iter=5", "solver.max_iter is 5"},
        Difference{"LengthByFlag", "--iterations=5", "solver.max_iter is 5"},
        Difference{"Policy", "lr_policy='\"fixed\"'", "solver.lr_policy is"},
        Difference{"Decay", "weight_decay=0.001", "solver.weight_decay is 0.001"},
        Difference{"Rule", "type=Adam", "solver.type is \"Adam\""},
        Difference{"Seed", "--seed=4", "solver.random_seed is 4"},
        Difference{"Display", "display=2", "solver.display is 2"},
        Difference{"Snapshots", "snapshot=2", "solver.snapshot is 2"},
        Difference{"Iterations", "iter_size=2", "solver.iter_size is 2"},
        Difference{"Clipping", "clip_gradients=1", "solver.clip_gradients is 1"},
        Difference{"Wire", "distributed.wire=float16", "solver.distributed.wire is \"float16\""},
        Difference{"Algorithm", "distributed.algorithm=ring", "solver.distributed.algorithm is \"ring\""},
        Difference{"Deadline", "distributed.deadline_s=9", "solver.distributed.deadline_s is 9"},
        Difference{"Strategy", "distributed.strategy=local", "solver.distributed.strategy is \"local\""},
        Difference{"Sharding", "distributed.shard_updates=true", "solver.distributed.shard_updates is true"},
        Difference{"BatchPolicy", "distributed.batch=per_rank", "solver.distributed.batch is \"per_rank\""},
        Difference{"Determinism", "deterministic=false", "solver.deterministic is false"},
        Difference{"Precision", "--precision=bfloat16", "solver.precision is"},
        Difference{"Batch", "layer[data].data_param.batch_size=4", "net.layer[data].data_param.batch_size is 4"},
        Difference{"Data", "layer[data].data_param.source=b",
                   "net.layer[data].data_param.source is 40 records, checksum"},
        Difference{"Records", "layer[data].data_param.source=c",
                   "net.layer[data].data_param.source is 41 records, checksum"},
        Difference{"Shuffle", "layer[data].data_param.shuffle=false", "net.layer[data].data_param.shuffle is"},
        Difference{"Scale", "layer[data].transform_param.scale=1", "net.layer[data].transform_param.scale is"},
        Difference{"Outputs", "layer[ip].inner_product_param.num_output=12",
                   "net.layer[ip].inner_product_param.num_output is 12"},
        Difference{"Filler", "layer[ip].inner_product_param.weight_filler.type=msra",
                   "net.layer[ip].inner_product_param.weight_filler.type is \"msra\""},
        Difference{"Rates", "'layer[ip].param[0].lr_mult=2'", "net.layer[ip].param[0].lr_mult is 2"},
        Difference{"Layers", "'~layer[relu]'", "net.layer[relu] is nothing"},
        Difference{"Type", "layer[relu].type=Sigmoid", "net.layer[relu] is a Sigmoid layer"},
        Difference{"LossWeight", "'layer[loss].loss_weight=[2]'", "net.layer[loss].loss_weight[0] is 2"},
        Difference{"Weights", "--from=first-0001@last", "weights 0 is"},
        Difference{"Resume", "--resume=first-0001 max_iter=5", "solver.max_iter is 5"},
        Difference{"Kernels", "--kernels=listed", "flag --kernels is listed"},
        Difference{"DisabledKernel", "--disable-kernel=winograd", "flag --disable-kernel is winograd"},
        Difference{"Recompute", "--recompute", "flag --recompute is true"},
        Difference{"Trace", "--trace=t.json", "flag --trace is given"},
        Difference{"Explain", "--explain=comm", "flag --explain is comm"},
        Difference{"DryRun", "--dry-run", "flag --dry-run is true"},
        Difference{"MaxTime", "--max-time=90s", "flag --max-time is 90s"},
        Difference{"Threads", "--threads=2", "threads is 2"},
        Difference{"Variable", "", "environment DNNL_MAX_CPU_ISA is SSE41", "env DNNL_MAX_CPU_ISA=SSE41"},
        Difference{"Build", "", "build: checksum of the program is", "", "./other"}),
    [](const testing::TestParamInfo<Difference>& each) { return std::string(each.param.name); });

TEST_F(RanksDifferTest, OtherWeightsUnderOneNameAreFound) {
  const Outcome outcome =
      Both(Program() + Words("--from=first-0001@last"), Program() + Words("--from=second-0001@last"));
  EXPECT_EQ(outcome.code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 1: weights 0 is"), std::string::npos) << outcome.err;
}

TEST_F(RanksDifferTest, WhatIsARanksOwnMayDiffer) {
  const Outcome outcome = Both(
      Program() + Words(""),
      StrCat("'", MOKA_BINARY, "' train ./solver.prototxt --run elsewhere --threads=1 --runs other --data-threads=2 ",
             "--quiet --progress=off --device=cpu layer[data].data_param.source=same ",
             "layer[data].data_param.prefetch=2 snapshot_prefix=s"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* told :
       {"rank 1: flag --run is elsewhere, rank 0 has r", "rank 1: flag --runs is other, rank 0 has runs",
        "rank 1: flag --device is cpu, rank 0 has not given",
        "rank 1: solver.snapshot_prefix is \"s\", rank 0 has not given"}) {
    EXPECT_NE(outcome.err.find(told), std::string::npos) << told << "\n" << outcome.err;
  }
  EXPECT_TRUE(fs::exists(folder_ / "runs/r-0001/status.json"));
}

TEST_F(RanksDifferTest, ARankThatCannotReadItsOwnEndsAllAndIsNamed) {
  const Outcome outcome = Both(Program() + Words(""), Program() + Words("layer[data].data_param.sauce=b"));
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("has no field \"sauce\""), std::string::npos) << outcome.err;
}

TEST_F(RanksDifferTest, ARankWithAnotherVerbIsNamed) {
  const Outcome comm = Both(Program() + Words(""), Program() + " bench comm --maxbytes 1K --algorithm direct");
  EXPECT_EQ(comm.code, 78) << comm.err;
  EXPECT_NE(comm.err.find("rank 1 runs moka"), std::string::npos) << comm.err;
  EXPECT_NE(comm.err.find("bench comm, "), std::string::npos) << comm.err;
  EXPECT_NE(comm.err.find("train, "), std::string::npos) << comm.err;
  // A verb that knows no ranks ends before the others begin, so mpirun ends them.
  const Outcome alone = Both(Program() + Words(""), Program() + " test first-0001");
  EXPECT_NE(alone.code, 0);
  EXPECT_NE(alone.err.find("rank 1 of 2, and moka test has worked alone"), std::string::npos) << alone.err;
}

TEST_F(RanksDifferTest, FlagsOfABenchmarkAreCompared) {
  const std::string bench = Program() + " bench comm --algorithm direct -e ";
  const Outcome outcome = Both(bench + "1K", bench + "2K");
  EXPECT_EQ(outcome.code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 1: flag --maxbytes is 2K, rank 0 has 1K"), std::string::npos) << outcome.err;
}

TEST_F(RanksDifferTest, ARankWithoutASolverIsNamed) {
  const Outcome outcome = Both(Program() + Words(""), Program() + " train missing.prototxt --threads=1");
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("rank 1 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("no file, folder or run missing.prototxt"), std::string::npos) << outcome.err;
}

// The others wait from the end of their own start on, which takes its time on a busy machine.
TEST_F(RanksDifferTest, ALateRankIsWaitedForAndThatIsSaid) {
  const Outcome outcome = Both(Program() + Words(""), StrCat("sh -c \"sleep 8; exec ", Program(), Words(""), "\""));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 0 has waited 3 s for the others of 2 to start"), std::string::npos) << outcome.err;
}

class ResumedFlagsTest : public RanksDifferTest {};

TEST_F(ResumedFlagsTest, AResumedRunKeepsItsThreadsAndRanks) {
  const std::string run = "train solver.prototxt --run kept --ranks=2 --threads=2 deterministic=true --kernels=listed ";
  ASSERT_EQ(Moka(run).code, 0);
  ASSERT_EQ(Moka("train solver.prototxt --run whole --ranks=2 --threads=2 --kernels=listed max_iter=6").code, 0);
  const Outcome resumed = Moka("train --resume=kept-0001 max_iter=6");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("--ranks=2, as the run was started"), std::string::npos) << resumed.err;
  EXPECT_EQ(resumed.err.find("bit for bit"), std::string::npos) << resumed.err;
  for (const char* run_name : {"kept-0001", "whole-0001"}) {
    EXPECT_NE(ReadFile(folder_ / "runs" / run_name / "config/solver.prototxt").find("threads: 2"), std::string::npos);
  }
  EXPECT_EQ(ReadFile(folder_ / "runs/kept-0001/checkpoints/iter_0000006.safetensors"),
            ReadFile(folder_ / "runs/whole-0001/checkpoints/iter_0000006.safetensors"));
  const Outcome other = Moka("train --resume=kept-0001 max_iter=7 --threads=1 --ranks=1");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("the run was started with 2 threads and goes on with 1"), std::string::npos) << other.err;
  EXPECT_NE(other.err.find("the run was started with 2 threads as ranks and goes on with 1"), std::string::npos)
      << other.err;
}

}  // namespace
}  // namespace moka
