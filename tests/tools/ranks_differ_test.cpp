// Ranks that mpirun starts with different words, files or programs: each difference is refused before the first step,
// naming the field, both values and the rank.
#include <chrono>

#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

struct Difference {
  const char* words;  // of rank 1, after those of rank 0
  const char* said;
};

// What GoogleTest says of a parameter.
std::ostream& operator<<(std::ostream& out, const Difference& one) { return out << one.words; }

class RanksDifferTest : public CliTest, public testing::WithParamInterface<Difference> {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    for (const char* made : {"glyphs:60:1 data/train", "glyphs:60:3 data/other", "glyphs:50:1 data/fewer",
                             "glyphs:20:2 data/test", "glyphs:20:4 data/test2"}) {
      ASSERT_EQ(Moka(StrCat("data import ", made)).code, 0);
    }
    ASSERT_EQ(Moka(Words() + " max_iter=1 --run=first").code, 0);
    ASSERT_EQ(Moka(Words() + " max_iter=1 random_seed=6 --run=second").code, 0);
    ASSERT_EQ(Moka(Words() + " max_iter=9 --run=third").code, 0);
    fs::copy_file(MOKA_BINARY, folder_ / "moka2");
    WriteFileAtomically(folder_ / "more.txt", "built otherwise\n");
    ASSERT_EQ(RunShell(StrCat("cd '", folder_.string(), "' && (cat more.txt >>moka2)"), folder_).code, 0);
  }
  static std::string Words() {
    return StrCat("train '", MOKA_SOURCE_DIR,
                  "/models/lenet' 'layer[0].data_param.source=data/train' 'layer[1].data_param.source=data/test' "
                  "'layer[0].data_param.batch_size=8' 'layer[1].data_param.batch_size=10' 'test_iter=[2]' "
                  "test_interval=10 display=0 random_seed=5 --threads=1 max_iter=3");
  }
  static Outcome Both(const std::string& first, const std::string& second, const std::string& program = MOKA_BINARY) {
    return RunShell(StrCat("cd '", folder_.string(),
                           "' && OMP_NUM_THREADS=1 timeout 60 mpirun --oversubscribe --bind-to none -np 1 '",
                           MOKA_BINARY, "' ", first, " : -np 1 '", program, "' ", second),
                    folder_);
  }
};

TEST_P(RanksDifferTest, IsRefusedBeforeTheFirstStep) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = Both(Words(), StrCat(Words(), " ", GetParam().words));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(outcome.code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find(GetParam().said), std::string::npos) << outcome.err;
  EXPECT_LT(seconds, 5) << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "runs/lenet-0001"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RanksDifferTest,
    testing::Values(Difference{"momentum=0.8", "rank 1: solver.momentum is 0.8, rank 0 has 0.9"},
                    Difference{"max_iter=4", "rank 1: solver.max_iter is 4, rank 0 has 3"},
                    Difference{"base_lr=0.02", "rank 1: solver.base_lr is 0.02, rank 0 has 0.05"},
                    Difference{"weight_decay=0.1", "rank 1: solver.weight_decay is 0.1, rank 0 has 0.0005"},
                    Difference{"type=Nesterov", "rank 1: solver.type is \"Nesterov\""},
                    Difference{"lr_policy=fixed", "rank 1: solver.lr_policy is \"fixed\", rank 0 has \"cosine\""},
                    Difference{"gamma=0.5", "rank 1: solver.gamma is 0.5, rank 0 has it not set"},
                    Difference{"clip_gradients=3", "rank 1: solver.clip_gradients is 3, rank 0 has it not set"},
                    Difference{"iter_size=2", "rank 1: solver.iter_size is 2, rank 0 has it not set"},
                    Difference{"random_seed=6", "rank 1: solver.random_seed is 6, rank 0 has 5"},
                    Difference{"test_interval=1", "rank 1: solver.test_interval is 1, rank 0 has 10"},
                    Difference{"'test_iter=[1]'", "rank 1: solver.test_iter[0] is 1, rank 0 has 2"},
                    Difference{"snapshot=1", "rank 1: solver.snapshot is 1"},
                    Difference{"display=1", "rank 1: solver.display is 1, rank 0 has 0"},
                    Difference{"deterministic=false", "rank 1: solver.deterministic is false"},
                    Difference{"distributed.wire=float16", "rank 1: solver.distributed.wire is \"float16\""},
                    Difference{"distributed.strategy=local", "rank 1: solver.distributed.strategy is \"local\""},
                    Difference{"distributed.batch=per_rank", "rank 1: solver.distributed.batch is \"per_rank\""},
                    Difference{"distributed.fusion=single", "rank 1: solver.distributed.fusion is \"single\""},
                    Difference{"distributed.shard_updates=true", "rank 1: solver.distributed.shard_updates is true"},
                    Difference{"ema_decay=0.5", "rank 1: solver.ema_decay is 0.5"},
                    Difference{"'layer[0].data_param.source=data/other'",
                               "rank 1: train_net.layer[mnist].data_param.source is 60 records, checksum "},
                    Difference{"'layer[0].data_param.source=data/fewer'",
                               "rank 1: train_net.layer[mnist].data_param.source is 50 records, checksum "},
                    Difference{"'layer[1].data_param.source=data/test2'",
                               "rank 1: test_net[0].layer[mnist].data_param.source is 20 records, checksum "},
                    Difference{"'layer[0].data_param.batch_size=16'",
                               "rank 1: train_net.layer[mnist].data_param.batch_size is 16, rank 0 has 8"},
                    Difference{"'layer[ip1].inner_product_param.num_output=300'",
                               "rank 1: train_net.layer[ip1].inner_product_param.num_output is 300, rank 0 has 500"},
                    Difference{"'layer[conv1].param[0].lr_mult=3'",
                               "rank 1: train_net.layer[conv1].param[0].lr_mult is 3"},
                    Difference{"--precision=bfloat16", "rank 1: --precision is bfloat16, rank 0 has it not set"},
                    Difference{"--kernels=listed", "rank 1: --kernels is listed, rank 0 has it not set"},
                    Difference{"--disable-kernel=winograd", "rank 1: --disable-kernel is winograd"},
                    Difference{"--recompute", "rank 1: --recompute is true, rank 0 has it not set"},
                    Difference{"--threads=2", "rank 1: --threads is 2, rank 0 has 1"},
                    Difference{"--from=first-0001@last", "rank 1: weights[0] is file of "}));

TEST_F(RanksDifferTest, AnotherBuildIsRefused) {
  const Outcome outcome = Both(Words(), Words(), (folder_ / "moka2").string());
  EXPECT_EQ(outcome.code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 1: moka's version and build is "), std::string::npos) << outcome.err;
}

TEST_F(RanksDifferTest, OtherWeightsOfOneNameAreRefused) {
  const Outcome outcome = Both(Words() + " --from=first-0001@last", Words() + " --from=second-0001@last");
  EXPECT_EQ(outcome.code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 1: weights[0] is file of "), std::string::npos) << outcome.err;
}

TEST_F(RanksDifferTest, AnotherCheckpointIsRefused) {
  const Outcome outcome = Both("train --resume=first-0001 max_iter=20", "train --resume=third-0001 max_iter=20");
  EXPECT_EQ(outcome.code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 1: the iteration it goes on from is 9, rank 0 has 1"), std::string::npos)
      << outcome.err;
}

// What may differ: where a rank's data lie, what it shows, how many threads read.
TEST_F(RanksDifferTest, TheSameInAnotherPlaceTrains) {
  fs::create_directories(folder_ / "elsewhere");
  fs::copy(folder_ / "data/train", folder_ / "elsewhere/train", fs::copy_options::recursive);
  const Outcome outcome = Both(Words() + " --run=same", Words() +
                                                            " --run=same 'layer[0].data_param.source=elsewhere/train' "
                                                            "--data-threads=2 --progress=off");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(RanksDifferTest, AResumedRunKeepsItsThreads) {
  ASSERT_EQ(Moka(Words() + " --threads=2 --run=wide").code, 0);
  const auto threads = [&] {
    return Json::parse(ReadFile(folder_ / "runs/wide-0001/run.json")).at("sessions").back().at("threads").get<int>();
  };
  ASSERT_EQ(threads(), 2);
  ASSERT_EQ(Moka("train --resume=wide-0001 max_iter=4").code, 0);
  EXPECT_EQ(threads(), 2);
  ASSERT_EQ(Moka("train --resume=wide-0001 max_iter=5 threads=1").code, 0);
  EXPECT_EQ(threads(), 1);
  ASSERT_EQ(Moka("train --resume=wide-0001 max_iter=6 --threads=2").code, 0);
  EXPECT_EQ(threads(), 2);
}

}  // namespace
}  // namespace moka
