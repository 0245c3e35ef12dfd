// Half precision on CPUs: zoo nets take their step without conversions, what is emulated is told with its price, and
// `auto` chooses by it.
#include <gmock/gmock.h>

#include "core/text.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/kernel_rule.h"
#include "proto/nets/net_file.h"
#include "tools/measure/auto_precision.h"
#include "tools/measure/half_outlook.h"
#include "tools/measure/peak.h"
#include "tools/measure/timed_net.h"
#include "tools/nets/training_nets.h"

namespace moka {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<TimedNet> StepOf(const std::string& model, Compute compute) {
  const TrainingNets training = ReadTrainingNets(StrCat(MOKA_SOURCE_DIR, "/models/", model), {}, {});
  CompileOptions compile;
  compile.compute = compute;
  return MakeTimedNet(training.nets, TRAIN, compile, {.batch = 2, .turns = training.turns, .has_precision = true});
}

class ZooInBFloat16 : public testing::TestWithParam<const char*> {};

TEST_P(ZooInBFloat16, ConvertsNothingInAStep) {
  if (!HasBFloat16Pairs()) GTEST_SKIP() << "without AVX512-BF16 products are converted";
  const std::unique_ptr<TimedNet> net = StepOf(GetParam(), Compute::kBFloat16);
  std::vector<std::string> converted;
  size_t half = 0;
  for (const Program* program : net->Programs()) {
    for (const StepReport& step : program->steps()) {
      if (step.types.find("bfloat16") != std::string::npos) ++half;
      if (step.kernel.starts_with("converted_"))
        converted.push_back(StrCat(step.layer, ": ", step.op, " ", step.types));
    }
  }
  EXPECT_THAT(converted, IsEmpty());
  EXPECT_GT(half, 10U) << "steps that read or write bfloat16";
}

INSTANTIATE_TEST_SUITE_P(Kinds, ZooInBFloat16,
                         testing::Values("alexnet_bn", "bccd_ssd", "cifar10_resnet20", "dcgan_cifar10", "isbi_unet",
                                         "multi30k_attention", "multi30k_seq2seq", "multi30k_transformer"),
                         [](const auto& model) { return std::string(model.param); });

StepReport Step(const std::string& kernel, const std::string& type, int64_t flops, int64_t bytes) {
  StepReport step;
  step.op = "convolution";
  step.kernel = kernel;
  step.types = StrCat(type, "[4] <- ", type, "[4]");
  step.factors = type == "float32" ? DType::kFloat32 : DType::kBFloat16;
  step.flops = flops;
  step.bytes = bytes;
  return step;
}

TEST(HalfOutlookTest, CountsTheWorkOfSteps) {
  const std::vector<StepReport> plain = {Step("onednn", "float32", 1000, 100)};
  EXPECT_EQ(OutlookOf(plain).speedup, 1);
  EXPECT_THAT(EmulationText(OutlookOf(plain)), IsEmpty());

  // Bound by memory, a byte takes longer than one of float32, and there are half as many; with conversions five passes
  // stand against two.
  const std::vector<StepReport> lean = {Step("native", "bfloat16", 50, 100)};
  EXPECT_NEAR(OutlookOf(lean).speedup, HasBFloat16Pairs() ? 2 / 1.4 : 2 / 2.3, 1e-12);
  const std::vector<StepReport> converted = {Step("converted_native", "bfloat16", 50, 100),
                                             Step("converted_native", "bfloat16", 50, 100)};
  const HalfOutlook outlook = OutlookOf(converted);
  EXPECT_DOUBLE_EQ(outlook.speedup, 2.0 / 5);
  EXPECT_EQ(outlook.converted, 2);
  EXPECT_EQ(EmulationText(outlook),
            "2 steps convert to float32 and back (convolution); expect 0.4 times the speed of float32");
}

TEST(HalfOutlookTest, ProductsAreAsFastAsTheCpuMultipliesThem) {
  const HalfOutlook outlook =
      OutlookOf(std::vector<StepReport>{Step(HasBFloat16Pairs() ? "onednn" : "winograd", "bfloat16", 1'000'000, 10)});
  EXPECT_EQ(outlook.widened, HasBFloat16Pairs() ? 0 : 1);
  if (HasBFloat16Pairs()) {
    EXPECT_GE(outlook.speedup, 2);
  } else {
    EXPECT_EQ(outlook.speedup, 1) << "its arithmetic is float32's";
    EXPECT_THAT(EmulationText(outlook), HasSubstr("1 products widen their factors, as this CPU has no AVX512-BF16"));
  }
}

TEST(AutoPrecisionTest, TakesBFloat16WhereItIsClearlyFaster) {
  TrainingNets training = ReadTrainingNets(StrCat(MOKA_SOURCE_DIR, "/models/mobilenet_v1"), {}, {});
  EXPECT_EQ(AutoPrecision(training.nets, TRAIN, {}, {.batch = 2}),
            HasBFloat16Pairs() ? Compute::kBFloat16 : Compute::kFloat32);
  training.nets[0].set_default_forward_type(FLOAT);
  EXPECT_EQ(AutoPrecision(training.nets, TRAIN, {}, {.batch = 2}), Compute::kFloat32) << "the net says so";
}

TEST(HalfOutlookTest, SetsThePrecisionsSideBySide) {
  const std::vector<StepReport> half = {Step("onednn", "bfloat16", 1'000'000, 10)};
  const std::vector<StepReport> wide = {Step("winograd", "float32", 1'000'000, 20)};
  const HalfOutlook outlook = OutlookOf(half, wide);
  EXPECT_NEAR(outlook.speedup, FlopsPerMs("onednn", DType::kBFloat16) / FlopsPerMs("winograd", DType::kFloat32), 1e-12);
}

TEST(PeakTest, IsKnownOfTheTypesThatTheCpuMultiplies) {
  EXPECT_GT(MeasurePeak(Arithmetic::kFloat32, 1000, 1), 0);
  EXPECT_EQ(MeasurePeak(Arithmetic::kBFloat16, 1000, 1) > 0, HasBFloat16Pairs());
  EXPECT_EQ(MeasurePeak(Arithmetic::kInt8, 1000, 1) > 0, HasInt8Quads());
}

}  // namespace
}  // namespace moka
