// cuDNN plans without a GPU for one that is only described: that the graphs Moka builds for convolutions have engines
// on an A100 and an H100, under every rule of precision, is known wherever cuDNN is installed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/device/device.h"
#include "core/text.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/cudnn/convolution_graph.h"

namespace moka {
namespace {

using cudnn::ConvolutionPass;
using cudnn::ConvolutionProblem;

struct Chip {
  const char* name;
  int capability;
  const char* description;
};

constexpr Chip kChips[] = {
    {"A100", 80,
     R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
"multiProcessorCount":108,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":166912,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,
"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85094825984,
"smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,"cudaDeviceId":0,"deviceVer":800,
"driverVer":13000,"deviceName":"NVIDIA A100-SXM4-80GB"})"},
    {"H100", 90,
     R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
"multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,
"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85017493504,
"smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,
"driverVer":13000,"deviceName":"NVIDIA H100 80GB HBM3"})"},
};

// A square convolution of a batch of square images.
struct Window {
  const char* name;
  int64_t batch, channels, filters, size, kernel, stride, pad, groups, dilation;
};

constexpr Window kWindows[] = {
    {"lenet_conv1", 64, 1, 20, 28, 5, 1, 0, 1, 1},
    {"resnet50_conv1", 256, 3, 64, 224, 7, 2, 3, 1, 1},
    {"resnet50_reduce", 256, 256, 64, 56, 1, 1, 0, 1, 1},
    {"resnet50_3x3", 256, 64, 64, 56, 3, 1, 1, 1, 1},
    {"resnet50_shortcut", 256, 256, 512, 56, 1, 2, 0, 1, 1},
    {"resnet50_stride", 256, 512, 512, 14, 3, 2, 1, 1, 1},
    {"alexnet_conv1", 256, 3, 96, 227, 11, 4, 0, 1, 1},
    {"alexnet_conv2", 256, 96, 256, 27, 5, 1, 2, 2, 1},
    {"mobilenet_depthwise", 64, 32, 32, 112, 3, 1, 1, 32, 1},
    {"deeplab_dilated", 8, 256, 256, 33, 3, 1, 12, 1, 12},
    {"dcgan", 128, 128, 256, 16, 4, 2, 1, 1, 1},
    {"one_image", 1, 64, 64, 56, 3, 1, 1, 1, 1},
    {"odd_channels", 4, 17, 19, 9, 3, 1, 1, 1, 1},
    {"unet", 1, 64, 64, 572, 3, 1, 0, 1, 1},
};

ConvolutionProblem ProblemOf(const Window& w, DType dtype, bool channels_last, ConvolutionPass pass) {
  const int64_t out = (w.size + 2 * w.pad - (w.dilation * (w.kernel - 1) + 1)) / w.stride + 1;
  const auto type = [&](const Shape& shape) {
    const Layout layout = channels_last ? ChannelsLast(4).Simplified(shape) : Layout{};
    return TensorType{dtype, shape, layout};
  };
  ConvolutionProblem p;
  p.pass = pass;
  p.x = type({w.batch, w.channels, w.size, w.size});
  p.w = type({w.filters, w.channels / w.groups, w.kernel, w.kernel});
  p.y = type({w.batch, w.filters, out, out});
  p.geometry = {{w.kernel, w.kernel}, {w.stride, w.stride}, {w.pad, w.pad}, {w.pad, w.pad}, {w.dilation, w.dilation}};
  return p;
}

class CudnnPlans : public testing::TestWithParam<Chip> {
 protected:
  void SetUp() override {
    try {
      cudnn::Functions();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    constexpr size_t kPlansWithoutGpu = 91100;
    if (cudnn::Functions().get_version() < kPlansWithoutGpu) GTEST_SKIP() << "cuDNN before 9.11 plans on a GPU alone";
    // Beside an H100 it finds no engine of an A100 that sums statistics, which it finds where there is no GPU.
    for (const GpuFacts& gpu : FindCuda().gpus) {
      if (gpu.capability != GetParam().capability) GTEST_SKIP() << "plans are those of chips like this " << gpu.name;
    }
    properties_.emplace(cudnn::DeviceProperties(std::string(GetParam().description)));
  }

  // How many plans there are; their engines in `engines`.
  size_t PlanCount(const ConvolutionProblem& problem, bool fused, bool may_round) {
    const cudnn::Target target{nullptr, &*properties_};
    const cudnn::PlanRules rules{.may_round = may_round, .most_workspace_bytes = int64_t{1} << 30};
    const cudnn::ConvolutionGraph graph(problem, fused, target);
    const std::vector<cudnn::Plan> plans = cudnn::FindPlans(graph.descriptor(), target, rules, 4);
    for (const cudnn::Plan& plan : plans) {
      EXPECT_TRUE(plan.engine.starts_with("engine ")) << plan.engine;
      EXPECT_LE(plan.workspace_bytes, rules.most_workspace_bytes);
    }
    return plans.size();
  }

  std::optional<cudnn::Descriptor> properties_;
};

INSTANTIATE_TEST_SUITE_P(Chips, CudnnPlans, testing::ValuesIn(kChips),
                         [](const auto& chip) { return std::string(chip.param.name); });

TEST_P(CudnnPlans, EveryConvolutionHasAnEngineInEveryPrecision) {
  for (const Window& window : kWindows) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
      for (const ConvolutionPass pass :
           {ConvolutionPass::kForward, ConvolutionPass::kBackwardData, ConvolutionPass::kBackwardWeights}) {
        SCOPED_TRACE(StrCat(window.name, " ", NameOf(dtype), " pass ", static_cast<int>(pass)));
        EXPECT_GT(PlanCount(ProblemOf(window, dtype, true, pass), false, true), 0U) << "channels last, tensor cores";
        if (dtype != DType::kFloat32) continue;
        EXPECT_GT(PlanCount(ProblemOf(window, dtype, false, pass), false, false), 0U) << "plain, exact";
        EXPECT_GT(PlanCount(ProblemOf(window, dtype, true, pass), false, false), 0U) << "channels last, exact";
      }
    }
  }
}

// Engines fuse what has a bias: folded nets and those without batch norm.
TEST_P(CudnnPlans, SumBiasAndReluAreFused) {
  for (const Window& window : kWindows) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
      for (const int parts : {2, 3, 6, 7}) {  // bits: sum, bias, ReLU
        ConvolutionProblem p = ProblemOf(window, dtype, true, ConvolutionPass::kForward);
        p.sum = (parts & 1) != 0;
        p.bias = (parts & 2) != 0;
        p.relu = (parts & 4) != 0;
        SCOPED_TRACE(
            StrCat(window.name, " ", NameOf(dtype), p.sum ? " sum" : "", p.bias ? " bias" : "", p.relu ? " relu" : ""));
        EXPECT_GT(PlanCount(p, true, true), 0U);
      }
    }
  }
}

// In float16, which is what its engines know, of channels in eights.
TEST_P(CudnnPlans, StatisticsAreSummedInTheConvolution) {
  for (const Window& window : kWindows) {
    if (!std::string(window.name).starts_with("resnet50_") || window.channels % 8 != 0) continue;
    SCOPED_TRACE(window.name);
    ConvolutionProblem p = ProblemOf(window, DType::kFloat16, true, ConvolutionPass::kForward);
    p.statistics = true;
    EXPECT_GT(PlanCount(p, true, true), 0U);
    const cudnn::Target target{nullptr, &*properties_};
    const cudnn::PlanRules rules{.most_workspace_bytes = int64_t{1} << 30};
    const cudnn::ConvolutionGraph graph(p, true, target);
    const std::vector<cudnn::Plan> plans = cudnn::FindPlans(graph.descriptor(), target, rules, 1);
    ASSERT_EQ(plans.size(), 1U);
    EXPECT_TRUE(cudnn::PlanOf(cudnn::TextOf(plans[0]), target, rules)) << "comes back from its text";
  }
}

// Engines that cuDNN compiles for the GPU want a driver to plan: a real one, or one that stands in
// (tests/layers/cuda/write_driver_standin.cmake).
TEST_P(CudnnPlans, StatisticsAreSummedByReductionsInBothHalfTypes) {
  if (std::getenv("MOKA_DRIVER_STANDIN") == nullptr) GTEST_SKIP() << "no driver stands in";
  const cudnn::Target target{nullptr, &*properties_};
  const cudnn::PlanRules rules{.most_workspace_bytes = int64_t{1} << 30};
  for (const Window& window : kWindows) {
    if (!std::string(window.name).starts_with("resnet50_")) continue;
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      SCOPED_TRACE(StrCat(window.name, " ", NameOf(dtype)));
      ConvolutionProblem p = ProblemOf(window, dtype, true, ConvolutionPass::kForward);
      p.statistics = true;
      const cudnn::ConvolutionGraph graph(p, true, target, cudnn::StatisticsForm::kReductions);
      const std::vector<cudnn::Plan> plans = cudnn::FindPlans(graph.descriptor(), target, rules, 1);
      ASSERT_EQ(plans.size(), 1U);
      EXPECT_LE(plans[0].workspace_bytes, 1 << 20);
    }
  }
}

// Engines sum what the batch norm in front of a convolution wants, in the gradient of its input or, with transposed
// weights, in a convolution. Each plan is compiled, so a chip has to do.
TEST_P(CudnnPlans, GradientsSumWhatABatchNormWants) {
  if (std::getenv("MOKA_DRIVER_STANDIN") == nullptr) GTEST_SKIP() << "no driver stands in";
  if (GetParam().capability != 90) GTEST_SKIP() << "each plan is compiled, so one chip has to do: the H100";
  const cudnn::Target target{nullptr, &*properties_};
  const cudnn::PlanRules rules{.most_workspace_bytes = int64_t{1} << 30};
  constexpr Window kBeforeNorms[] = {
      {"reduce", 256, 256, 64, 56, 1, 1, 0, 1, 1},
      {"expand", 256, 512, 2048, 7, 1, 1, 0, 1, 1},
      {"3x3", 256, 64, 64, 56, 3, 1, 1, 1, 1},
  };
  for (const Window& window : kBeforeNorms) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      SCOPED_TRACE(StrCat(window.name, " ", NameOf(dtype)));
      ConvolutionProblem p = ProblemOf(window, dtype, true, ConvolutionPass::kBackwardData);
      p.gradient_sums = true;
      p.mask = true;
      p.sum = dtype == DType::kBFloat16;
      EXPECT_EQ(p.TransposesWeights(), window.kernel == 1);
      const cudnn::ConvolutionGraph graph(p, true, target);
      const std::vector<cudnn::Plan> plans = cudnn::FindPlans(graph.descriptor(), target, rules, 1);
      ASSERT_EQ(plans.size(), 1U);
      EXPECT_LE(plans[0].workspace_bytes, 1 << 20);
    }
  }
}

TEST_P(CudnnPlans, OneAndThreeSpatialAxes) {
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    ConvolutionProblem line;
    line.x = {dtype, {8, 16, 100}, ChannelsLast(3)};
    line.w = {dtype, {32, 16, 5}, ChannelsLast(3)};
    line.y = {dtype, {8, 32, 98}, ChannelsLast(3)};
    line.geometry = {{5}, {1}, {1}, {1}, {1}};
    EXPECT_GT(PlanCount(line, false, true), 0U) << NameOf(dtype);
    ConvolutionProblem volume;
    volume.x = {dtype, {2, 8, 16, 16, 16}, ChannelsLast(5)};
    volume.w = {dtype, {16, 8, 3, 3, 3}, ChannelsLast(5)};
    volume.y = {dtype, {2, 16, 16, 16, 16}, ChannelsLast(5)};
    volume.geometry = {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    EXPECT_GT(PlanCount(volume, false, true), 0U) << NameOf(dtype);
  }
}

// A plan that a search found is kept as text.
TEST_P(CudnnPlans, PlansComeBackFromTheirText) {
  const cudnn::Target target{nullptr, &*properties_};
  const cudnn::PlanRules rules{.most_workspace_bytes = int64_t{1} << 30};
  const ConvolutionProblem p = ProblemOf(kWindows[3], DType::kFloat16, true, ConvolutionPass::kForward);
  const cudnn::ConvolutionGraph graph(p, false, target);
  const std::vector<cudnn::Plan> plans = cudnn::FindPlans(graph.descriptor(), target, rules, 3);
  ASSERT_EQ(plans.size(), 3U);
  for (const cudnn::Plan& plan : plans) {
    const std::optional<cudnn::Plan> again = cudnn::PlanOf(cudnn::TextOf(plan), target, rules);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->engine, plan.engine);
    EXPECT_EQ(again->workspace_bytes, plan.workspace_bytes);
    EXPECT_EQ(cudnn::TextOf(*again), cudnn::TextOf(plan));
  }
  EXPECT_FALSE(cudnn::PlanOf("{\"no\": 1}", target, rules));
  EXPECT_FALSE(cudnn::PlanOf("", target, rules));
}

TEST_P(CudnnPlans, WhatDoesNotFitTogetherIsAnError) {
  ConvolutionProblem p = ProblemOf(kWindows[0], DType::kFloat16, true, ConvolutionPass::kForward);
  p.y.shape = p.y.shape.With(2, p.y.shape[2] + 1);
  EXPECT_THROW(PlanCount(p, false, true), Error);
}

}  // namespace
}  // namespace moka
