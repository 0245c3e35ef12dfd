// Commands on a rehearsed GPU: the same results as on the CPU, from batches that come ahead to checkpoints.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/device/device.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class DeviceCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (CudaRuntime().empty()) GTEST_SKIP() << FindCuda().missing;
    if (fs::exists(folder_ / "net.prototxt")) return;
    ASSERT_EQ(Moka("data import glyphs:400:1 data/train").code, 0);
    ASSERT_EQ(Moka("data import glyphs:100:2 data/test").code, 0);
    std::ofstream(folder_ / "net.prototxt") << R"(name: "small"
layer { name: "train" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { scale: 0.00390625 mirror: true }
  data_param { source: "data/train" batch_size: 20 backend: LMDB shuffle: true } }
layer { name: "test" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { scale: 0.00390625 } data_param { source: "data/test" batch_size: 20 backend: LMDB } }
layer { name: "small" type: "Pooling" bottom: "data" top: "small" pooling_param { pool: AVE kernel_size: 4 stride: 4 } }
layer { name: "conv" type: "Convolution" bottom: "small" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 bias_term: false weight_filler { type: "msra" } } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "drop" type: "Dropout" bottom: "conv" top: "conv" dropout_param { dropout_ratio: 0.1 } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";
    std::ofstream(folder_ / "solver.prototxt") << R"(net: "net.prototxt"
base_lr: 0.05 lr_policy: "step" gamma: 0.5 stepsize: 20 momentum: 0.9 weight_decay: 0.0005 clip_gradients: 10
max_iter: 40 display: 1 test_iter: 5 test_interval: 20 snapshot: 20 random_seed: 3
)";
  }

  // The run's folder.
  fs::path Train(const std::string& run, const std::string& more) {
    const Outcome trained = Moka(StrCat("train solver.prototxt --run ", run, " ", more));
    EXPECT_EQ(trained.code, 0) << trained.err;
    return folder_ / "runs" / (run + "-0001");
  }

  // Losses by iteration.
  static std::map<int64_t, double> Losses(const fs::path& run) {
    std::map<int64_t, double> losses;
    for (const std::string& line : Split(ReadFile(run / "metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      const Json metrics = Json::parse(line);
      if (metrics.contains("loss") && metrics.contains("lr")) losses[metrics.at("iter")] = metrics.at("loss");
    }
    return losses;
  }
  static std::string Weights(const fs::path& run) { return ReadFile(run / "checkpoints/iter_0000040.safetensors"); }
};

TEST_F(DeviceCliTest, ARehearsedGpuTrainsAsTheCpu) {
  const std::map<int64_t, double> expected = Losses(Train("cpu", "--device=cpu"));
  const std::map<int64_t, double> found = Losses(Train("gpu", "--device=rehearsal"));
  ASSERT_GE(expected.size(), 39U);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [iteration, loss] : expected) {
    EXPECT_NEAR(found.at(iteration), loss, 2e-3 * std::max(1.0, loss)) << "iteration " << iteration;
  }
  EXPECT_LT(expected.rbegin()->second, 0.7 * expected.begin()->second) << "it learns";
}

TEST_F(DeviceCliTest, ARunIsRepeatedAndResumedToTheSameBits) {
  const std::string whole = Weights(Train("whole", "--device=rehearsal"));
  EXPECT_EQ(Weights(Train("again", "--device=rehearsal")), whole);
  Train("cut", "--device=rehearsal max_iter=20");
  const Outcome resumed = Moka("train --resume=runs/cut-0001 --device=rehearsal max_iter=40");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(Weights(folder_ / "runs/cut-0001"), whole);
}

TEST_F(DeviceCliTest, HalfPrecisionStaysNear) {
  const double full = Losses(Train("full", "--device=rehearsal")).rbegin()->second;
  for (const char* precision : {"float16", "bfloat16"}) {
    const double half = Losses(Train(precision, StrCat("--device=rehearsal --precision=", precision))).rbegin()->second;
    EXPECT_NEAR(half, full, 0.25 * std::max(full, 0.2)) << precision;
  }
}

TEST_F(DeviceCliTest, TestsAgree) {
  const fs::path run = Train("tested", "--device=cpu");
  const auto accuracy = [&](const std::string& device) {
    const Outcome tested = Moka(StrCat("test '", run.string(), "' --json --device=", device));
    EXPECT_EQ(tested.code, 0) << tested.err;
    return Json::parse(tested.out).at("outputs").at("accuracy").get<double>();
  };
  EXPECT_EQ(accuracy("rehearsal"), accuracy("cpu"));
}

TEST_F(DeviceCliTest, DryRunNamesTheKernels) {
  const Outcome dry = Moka("train solver.prototxt --dry-run --device=rehearsal");
  ASSERT_EQ(dry.code, 0) << dry.err;
  for (const char* kernel :
       {"convolution_statistics loop", "batch_norm_apply moka", "pointwise_group interpreter", "matmul gemm:loop"}) {
    EXPECT_THAT(dry.out, testing::HasSubstr(kernel));
  }
  EXPECT_THAT(dry.out, testing::Not(testing::HasSubstr(" cpu_"))) << "every step is one of the GPU's";
  const Outcome explained = Moka("train solver.prototxt --explain=conv --device=rehearsal");
  EXPECT_THAT(explained.out, testing::HasSubstr("refused: cudnn: cuDNN needs a GPU, and this one is rehearsed"));
}

}  // namespace
}  // namespace moka
