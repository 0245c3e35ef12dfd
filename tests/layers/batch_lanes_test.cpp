// Convolutions and pooling over blocks of images against the reference: random shapes with tails of the batch, strides,
// pads, dilations and groups, both widths of registers where the machine has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "layers/kernels/cpu/batch_lanes/axis.h"
#include "layers/net/catalog.h"
#include "layers/ops/cases.h"
#include "tests/layers/kernel_check.h"
#include "tests/layers/op_run.h"

namespace moka {
namespace {

// Largest error over largest magnitude: sums of up to some thousand products in float32, rounded once a product.
constexpr double kTolerance = 2e-6;

struct Convolution {
  Shape x;
  Shape w;
  Shape y;
  Attributes geometry;
};

Convolution Make(const Shape& x, int64_t outputs, const Ints& kernel, const Ints& stride, const Ints& pad_begin,
                 const Ints& pad_end, const Ints& dilation, int64_t groups = 1) {
  Convolution c;
  c.x = x;
  c.w = Shape{outputs, x[1] / groups, kernel[0], kernel[1]};
  const auto size = [&](size_t i) {
    const int64_t window = dilation[i] * (kernel[i] - 1) + 1;
    return (x[static_cast<int>(i) + 2] + pad_begin[i] + pad_end[i] - window) / stride[i] + 1;
  };
  c.y = Shape{x[0], outputs, size(0), size(1)};
  c.geometry = ConvolutionCase(stride, pad_begin, pad_end, dilation, groups);
  return c;
}

Convolution LeNet(int64_t images) {
  return Make(Shape{images, 20, 12, 12}, 50, {5, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1});
}

Convolution RandomConvolution(RandomStream& random) {
  const auto pick = [&](int64_t most) { return 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(most))); };
  const Ints kernel = {pick(6), pick(6)};
  const Ints stride = {pick(3), pick(3)};
  const Ints dilation = {pick(2), pick(3)};
  const Ints begin = {pick(4) - 1, pick(4) - 1};
  const Ints end = {pick(4) - 1, pick(4) - 1};
  const int64_t groups = random.Below(3) == 0 ? pick(3) : 1;
  Ints sides;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t window = dilation[i] * (kernel[i] - 1) + 1;
    sides.push_back(std::max<int64_t>(1, window - begin[i] - end[i]) + pick(14) - 1);
  }
  return Make(Shape{pick(35), groups * pick(7), sides[0], sides[1]}, groups * pick(13), kernel, stride, begin, end,
              dilation, groups);
}

TensorType Type(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

OpCase Forward(const Convolution& c, bool bias, bool relu) {
  OpCase op_case{"forward", {Type(c.x), Type(c.w)}, c.geometry};
  if (bias) op_case.inputs.push_back(Type(Shape{c.w[0]}));
  op_case.attributes.Set("activation", std::string(relu ? "relu" : ""));
  op_case.tolerance = kTolerance;
  return op_case;
}
OpCase BackwardData(const Convolution& c) {
  return {.name = "data",
          .inputs = {Type(c.y), Type(c.w)},
          .attributes = With(c.geometry, {{"input_shape", DimsOf(c.x)}}),
          .tolerance = kTolerance};
}
OpCase BackwardWeights(const Convolution& c, bool bias) {
  return {.name = "weights",
          .inputs = {Type(c.x), Type(c.y)},
          .attributes = With(c.geometry, {{"weight_shape", DimsOf(c.w)}, {"bias", bias}}),
          .tolerance = kTolerance};
}

std::string Blocked(int64_t lanes) { return StrCat("Abcd", lanes, "a"); }
ChosenLayouts DataLayouts(int64_t lanes) { return {{Blocked(lanes)}, {Blocked(lanes)}}; }
ChosenLayouts WeightsLayouts(int64_t lanes) { return {{Blocked(lanes), Blocked(lanes)}, {}}; }
bool IsLacking(const Checked& checked) { return checked.refusal.ends_with("which this CPU lacks"); }

constexpr const char* kName = "batch_lanes";
constexpr const char* kWinograd = "batch_lanes_winograd";

class BatchLanes : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Lanes, BatchLanes, testing::Values(8, 16), testing::PrintToStringParamName());

// All three passes; false if the CPU lacks the instructions.
bool TakesAllPasses(const Convolution& c, int64_t lanes, bool bias, bool relu) {
  SCOPED_TRACE(StrCat(c.x.ToString(), c.w.ToString(), c.geometry.ToString()));
  const Checked forward = CheckKernel(kName, "convolution", Forward(c, bias, relu), DataLayouts(lanes));
  if (IsLacking(forward)) return false;
  EXPECT_EQ(forward.refusal, "");
  EXPECT_EQ(forward.implementation, lanes == 16 ? "direct:avx512" : "direct:avx2");
  EXPECT_EQ(CheckKernel(kName, "convolution_backward_data", BackwardData(c), DataLayouts(lanes)).refusal, "");
  EXPECT_EQ(CheckKernel(kName, "convolution_backward_weights", BackwardWeights(c, bias), WeightsLayouts(lanes)).refusal,
            "");
  return true;
}

TEST_P(BatchLanes, RandomShapesMatchTheReference) {
  RandomStream random(7, static_cast<uint64_t>(GetParam()));
  for (int i = 0; i < 80; ++i) {
    const Convolution c = RandomConvolution(random);
    if (c.x.Count() * c.w.Count() > int64_t{30} << 20) continue;  // the reference would take seconds
    if (!TakesAllPasses(c, GetParam(), random.Below(2) == 0, random.Below(2) == 0)) GTEST_SKIP() << "no such vectors";
  }
}

// Winograd's algorithm cancels terms several times as large as its results.
TEST_P(BatchLanes, WinogradAlongRowsMatchesTheReference) {
  RandomStream random(8, static_cast<uint64_t>(GetParam()));
  const auto pick = [&](int64_t most) { return 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(most))); };
  double worst = 0;
  for (int i = 0; i < 40; ++i) {
    const Ints begin = {pick(4) - 1, pick(4) - 1};
    const Ints end = {pick(4) - 1, pick(4) - 1};
    const int64_t rows = pick(5);
    const Shape x{pick(20), 7 + pick(9), std::max<int64_t>(1, rows - begin[0] - end[0]) + pick(9) - 1,
                  std::max<int64_t>(1, 5 - begin[1] - end[1]) + pick(9) - 1};
    const Convolution c = Make(x, pick(12), {rows, 5}, {1, 1}, begin, end, {1, 1});
    SCOPED_TRACE(StrCat(c.x.ToString(), c.w.ToString(), c.geometry.ToString()));
    OpCase op_case = Forward(c, random.Below(2) == 0, random.Below(2) == 0);
    op_case.tolerance = 1e-5;
    const Checked checked = CheckKernel(kWinograd, "convolution", op_case, DataLayouts(GetParam()));
    if (IsLacking(checked)) GTEST_SKIP() << checked.refusal;
    EXPECT_EQ(checked.refusal, "");
    OpCase weights = BackwardWeights(c, random.Below(2) == 0);
    weights.tolerance = 1e-5;
    const Checked gradient =
        CheckKernel(kWinograd, "convolution_backward_weights", weights, WeightsLayouts(GetParam()));
    EXPECT_EQ(gradient.refusal, "");
    worst = std::max({worst, checked.worst_error, gradient.worst_error});
  }
  RecordProperty("worst_error", StrCat(worst));
}

TEST_P(BatchLanes, LeNetsConvolutionsMatchTheReference) {
  const Convolution first = Make(Shape{19, 1, 28, 28}, 20, {5, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1});
  for (const Convolution& c : {first, LeNet(4)}) {
    if (!TakesAllPasses(c, GetParam(), true, false)) GTEST_SKIP() << "no such vectors";
  }
}

// Outputs that no window of the gradient reaches, and windows that reach almost nothing.
TEST_P(BatchLanes, GapsAndEdgesMatchTheReference) {
  for (const Convolution& c : {Make(Shape{3, 2, 9, 10}, 5, {2, 2}, {3, 4}, {0, 0}, {0, 0}, {1, 1}),
                               Make(Shape{3, 2, 1, 1}, 5, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}),
                               Make(Shape{3, 2, 4, 4}, 5, {3, 3}, {1, 1}, {3, 3}, {3, 3}, {2, 2}),
                               Make(Shape{3, 60, 40, 9}, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1})}) {
    if (!TakesAllPasses(c, GetParam(), true, true)) GTEST_SKIP() << "no such vectors";
  }
}

// The values of an op's outputs when its kernel is made for `threads` threads and run by more.
std::vector<double> ValuesOf(std::string_view op, const OpCase& op_case, const ChosenLayouts& layouts, int threads,
                             std::string_view row = kName) {
  const OpGraph built = BuildOp(StandardCatalog().Op(op), op_case, DType::kFloat32);
  const Node& node = built.graph.node(built.node);
  std::vector<TensorType> inputs = built.graph.InputTypes(node);
  std::vector<TensorType> outputs = built.graph.OutputTypes(node);
  const auto values = MakeInputs(op_case, inputs);
  for (size_t i = 0; i < layouts.inputs.size(); ++i) inputs[i].layout = Layout::Parse(layouts.inputs[i]);
  for (size_t o = 0; o < layouts.outputs.size(); ++o) outputs[o].layout = Layout::Parse(layouts.outputs[o]);
  std::vector<double> found;
  for (const KernelDef* def : StandardCatalog().KernelsOf(op, DeviceKind::kCpu)) {
    if (def->name != row || !def->refuse({node, inputs, outputs}).empty()) continue;
    const int before = ThreadCount();
    SetThreadCount(threads);
    std::vector<OwnedTensor> owned;
    std::vector<Tensor> in;
    std::vector<Tensor> out;
    for (size_t i = 0; i < inputs.size(); ++i)
      in.push_back(owned.emplace_back(ToTensor(values[i], inputs[i])).tensor());
    for (const TensorType& type : outputs) out.push_back(owned.emplace_back(type).tensor());
    const auto kernel = def->make({node, inputs, outputs});
    const Buffer scratch = Buffer::Allocate(kernel->scratch_bytes());
    kernel->Bind({in, out, scratch.data()});
    SetThreadCount(before + threads);
    kernel->Run();
    SetThreadCount(before);
    for (const Tensor& tensor : out) {
      const std::vector<double> part = FromTensor(tensor).values;
      found.insert(found.end(), part.begin(), part.end());
    }
  }
  return found;
}

TEST_P(BatchLanes, BitsDoNotDependOnTheThreads) {
  const Convolution c = LeNet(3);
  for (const int threads : {2, 3, 7}) {
    EXPECT_EQ(ValuesOf("convolution", Forward(c, true, true), DataLayouts(GetParam()), threads),
              ValuesOf("convolution", Forward(c, true, true), DataLayouts(GetParam()), 1));
    EXPECT_EQ(ValuesOf("convolution_backward_data", BackwardData(c), DataLayouts(GetParam()), threads),
              ValuesOf("convolution_backward_data", BackwardData(c), DataLayouts(GetParam()), 1));
    EXPECT_EQ(ValuesOf("convolution_backward_weights", BackwardWeights(c, true), WeightsLayouts(GetParam()), threads),
              ValuesOf("convolution_backward_weights", BackwardWeights(c, true), WeightsLayouts(GetParam()), 1));
    EXPECT_EQ(ValuesOf("convolution", Forward(c, true, true), DataLayouts(GetParam()), threads, kWinograd),
              ValuesOf("convolution", Forward(c, true, true), DataLayouts(GetParam()), 1, kWinograd));
    EXPECT_EQ(
        ValuesOf("convolution_backward_weights", BackwardWeights(c, true), WeightsLayouts(GetParam()), threads,
                 kWinograd),
        ValuesOf("convolution_backward_weights", BackwardWeights(c, true), WeightsLayouts(GetParam()), 1, kWinograd));
  }
}

// Both passes of a row over random windows; the refusal of a row whose instructions this CPU lacks.
std::string CheckMaxPooling(const char* row, const std::string& blocked, int64_t images, int64_t channels) {
  RandomStream random(11, StableHash(blocked));
  const auto pick = [&](int64_t most) { return 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(most))); };
  const ChosenLayouts layouts{{blocked, blocked}, {blocked, blocked}};
  for (int i = 0; i < 60; ++i) {
    const Ints kernel = {pick(4), pick(4)};
    const Ints begin = {pick(kernel[0]) - 1, pick(kernel[1]) - 1};
    const Attributes pool = PoolCase(kernel, {pick(4), pick(4)}, begin, begin);
    const Shape x{pick(images), pick(channels), kernel[0] + pick(9) - 1, kernel[1] + pick(9) - 1};
    SCOPED_TRACE(StrCat(x.ToString(), pool.ToString()));
    const Checked forward = CheckKernel(row, "pool_max", {"forward", {Type(x)}, pool}, layouts);
    if (IsLacking(forward)) return forward.refusal;
    EXPECT_EQ(forward.refusal, "");
    const Shape y = forward.outputs[0].shape;
    const OpCase backward{.name = "backward",
                          .inputs = {Type(y), {DType::kUInt8, y, {}}},
                          .attributes = With(pool, {{"input_shape", DimsOf(x)}}),
                          .ranges = {{1, 0, 0}}};
    EXPECT_EQ(CheckKernel(row, "pool_max_backward", backward, layouts).refusal, "");
  }
  return {};
}

TEST_P(BatchLanes, MaxPoolingMatchesTheReference) {
  const std::string lacking = CheckMaxPooling(kName, Blocked(GetParam()), 35, 4);
  if (!lacking.empty()) GTEST_SKIP() << lacking;
}

TEST_P(BatchLanes, MaxPoolingOverBlocksOfChannelsMatchesTheReference) {
  const std::string lacking = CheckMaxPooling("channel_lanes", StrCat("aBcd", GetParam(), "b"), 4, 35);
  if (!lacking.empty()) GTEST_SKIP() << lacking;
}

// The portable kernel knows the layout too.
TEST_P(BatchLanes, AveragePoolingMatchesTheReference) {
  const std::string blocked = Blocked(GetParam());
  const Shape x{19, 3, 7, 6};
  const Attributes pool =
      With(PoolCase({3, 2}, {2, 2}, {1, 0}, {1, 0}), {{"count_begin", Ints{0, 0}}, {"count_end", Ints{1, 0}}});
  const Checked forward = CheckKernel("moka", "pool_average", {"forward", {Type(x)}, pool}, {{blocked}, {blocked}});
  EXPECT_EQ(forward.refusal, "");
  const OpCase backward{"backward", {forward.outputs[0]}, With(pool, {{"input_shape", DimsOf(x)}})};
  EXPECT_EQ(CheckKernel("moka", "pool_average_backward", backward, {{blocked}, {blocked}}).refusal, "");
}

TEST_P(BatchLanes, ProposesWhereChannelsWouldBePadded) {
  const std::string blocked = Blocked(GetParam());
  const int64_t images = GetParam() == 16 ? 32 : 8;
  const OpCase narrow = Forward(LeNet(images), true, false);
  if (IsLacking(CheckKernel(kName, "convolution", narrow, DataLayouts(GetParam())))) GTEST_SKIP() << "no such vectors";
  const Checked forward = CheckProposal(kName, "convolution", narrow, {});
  // A machine without AVX-512 has blocks of 8 only.
  const std::string widest = LayoutNames(forward.inputs)[0];
  EXPECT_TRUE(widest == blocked || widest == "Abcd8a") << widest;
  EXPECT_EQ(LayoutNames(forward.inputs), (std::vector<std::string>{widest, "abcd", "a"}));
  EXPECT_EQ(LayoutNames(forward.outputs), (std::vector<std::string>{widest}));
  const Convolution wide = Make(Shape{images, 3, 9, 9}, 64, {3, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1});
  EXPECT_EQ(CheckProposal(kName, "convolution", Forward(wide, false, false), {}).refusal, "no proposal");
  EXPECT_EQ(CheckProposal(kName, "convolution", Forward(wide, false, false), {{blocked}, {}}).refusal, "");
  EXPECT_EQ(CheckProposal(kName, "convolution_backward_data", BackwardData(wide), {}).refusal, "");
  EXPECT_EQ(CheckProposal(kName, "convolution", Forward(LeNet(5), false, false), {}).refusal, "no proposal");
}

TEST(BatchLanesRefusals, SayWhy) {
  const Convolution c = LeNet(8);
  const auto refusal = [&](const OpCase& op_case, const ChosenLayouts& layouts) {
    return CheckKernel(kName, "convolution", op_case, layouts).refusal;
  };
  EXPECT_EQ(refusal(Forward(c, false, false), {}), "the images of float32[8,20,12,12] are not in blocks of 8 or 16");
  EXPECT_EQ(refusal(Forward(c, false, false), {{"Abcd8a"}, {}}),
            "float32[8,50,8,8] does not lie as float32[8,20,12,12]:Abcd8a");
  OpCase summed = Forward(c, false, false);
  summed.inputs.push_back(Type(c.y));
  summed.attributes.Set("sum", true);
  EXPECT_EQ(refusal(summed, DataLayouts(8)), "it adds no summand");
  const std::string weights = refusal(Forward(c, false, false), {{"Abcd8a", "acdb"}, {"Abcd8a"}});
  if (weights.ends_with("which this CPU lacks")) GTEST_SKIP() << weights;
  EXPECT_EQ(weights, "the weights float32[50,20,5,5]:acdb are not plain");
}

// Every pair of an output and a tap that meets an input is in exactly one run and in its output's taps, at that input.
TEST(BatchLanesAxis, RunsCoverEveryTapOnce) {
  using batch_lanes::Axis;
  RandomStream random(5, 1);
  const auto pick = [&](int64_t most) { return 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(most))); };
  for (int i = 0; i < 500; ++i) {
    const Axis axis{.inputs = pick(12),
                    .outputs = pick(12),
                    .taps = pick(7),
                    .stride = pick(4),
                    .dilation = pick(3),
                    .pad = pick(6) - 1,
                    .is_gradient = random.Below(2) == 0};
    std::map<std::pair<int64_t, int64_t>, int64_t> expected;
    std::map<std::pair<int64_t, int64_t>, int64_t> by_output;
    for (int64_t output = 0; output < axis.outputs; ++output) {
      for (int64_t tap = 0; tap < axis.taps; ++tap) {
        if (axis.InputOf(output, tap) >= 0) expected[{output, tap}] = axis.InputOf(output, tap);
      }
      const batch_lanes::Taps taps = TapsOf(axis, output);
      for (int64_t j = 0; j < taps.count; ++j) {
        by_output[{output, taps.first + j * taps.step}] = taps.input + j * taps.input_step;
      }
    }
    std::map<std::pair<int64_t, int64_t>, int64_t> by_run;
    for (const batch_lanes::Reachable& run : RunsOf(axis, 0, axis.taps)) {
      for (int64_t p = 0; p < run.count; ++p) {
        for (int64_t j = 0; j < run.taps; ++j) {
          const std::pair at(run.output + p * run.output_step, run.first_tap + j * run.tap_step);
          EXPECT_TRUE(by_run.emplace(at, run.input + p * run.input_step + j * run.input_tap).second);
        }
      }
    }
    EXPECT_EQ(by_output, expected);
    EXPECT_EQ(by_run, expected);
  }
}

}  // namespace
}  // namespace moka
