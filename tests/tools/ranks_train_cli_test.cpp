// moka train as processes that mpirun starts: the same training as that of one process.
#include "proto/weights.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

constexpr int kIterations = 20;

class RanksTrainCliTest : public CliTest {
 protected:
  // The weights of the last checkpoint of run NAME.
  static std::vector<NamedBlob> WeightsOf(const std::string& name) {
    return ReadWeights(folder_ / "runs" / StrCat(name, "-0001") / "checkpoints" /
                       StrCat("iter_00000", kIterations, ".safetensors"))
        .blobs;
  }
  static std::string Train(const std::string& name) {
    return StrCat("train '", MOKA_SOURCE_DIR,
                  "/models/lenet' 'layer[0].data_param.source=data/train' 'layer[1].data_param.source=data/test' "
                  "'layer[0].data_param.batch_size=8' 'layer[1].data_param.batch_size=10' "
                  "'test_iter=[2]' test_interval=10 display=0 random_seed=5 --threads=1 max_iter=",
                  kIterations, " --run=", name);
  }
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    ASSERT_EQ(Moka("data import glyphs:90:1 data/train").code, 0);
    ASSERT_EQ(Moka("data import glyphs:20:2 data/test").code, 0);
  }
};

TEST_F(RanksTrainCliTest, TwoProcessesTrainAsOneDoes) {
  const Outcome alone = Moka(Train("alone"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Outcome two =
      RunShell(StrCat("cd '", folder_.string(), "' && OMP_NUM_THREADS=1 mpirun --oversubscribe --bind-to none -np 2 '",
                      MOKA_BINARY, "' ", Train("two")),
               folder_);
  ASSERT_EQ(two.code, 0) << two.err;
  const std::vector<NamedBlob> expected = WeightsOf("alone");
  const std::vector<NamedBlob> blobs = WeightsOf("two");
  ASSERT_EQ(blobs.size(), expected.size());
  for (size_t b = 0; b < blobs.size(); ++b) {
    EXPECT_EQ(blobs[b].layer, expected[b].layer);
    ASSERT_EQ(blobs[b].values.size(), expected[b].values.size());
    float largest = 0;
    for (size_t i = 0; i < blobs[b].values.size(); ++i) {
      largest = std::max(largest, std::abs(blobs[b].values[i] - expected[b].values[i]));
    }
    EXPECT_LE(largest, 5e-5F) << blobs[b].layer << "/" << blobs[b].index;
  }
  for (int rank = 0; rank < 2; ++rank) {
    const Json state = Json::parse(ReadFile(folder_ / StrCat("runs/two-0001/ranks/rank-", rank, ".json")));
    EXPECT_EQ(state.at("state"), "ended");
    EXPECT_EQ(state.at("lost"), -1);
  }
}

}  // namespace
}  // namespace moka
