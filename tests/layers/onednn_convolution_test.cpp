// oneDNN's convolutions against the reference: random geometries under the layouts they propose, fixed blocked ones,
// groups, fused sum and ReLU.
#include <gtest/gtest.h>

#include <map>

#include "core/rng.h"
#include "core/text.h"
#include "layers/ops/cases.h"
#include "tests/layers/kernel_check.h"

namespace moka {
namespace {

int64_t Pick(RandomStream& random, const std::vector<int64_t>& values) { return values[random.Below(values.size())]; }

struct Convolution {
  Shape x;
  Shape w;
  Shape y;
  Attributes geometry;
};

// A convolution with small dimensions that has at least one window.
Convolution RandomConvolution(RandomStream& random) {
  const int rank = static_cast<int>(Pick(random, {1, 2, 2, 2, 2, 3}));
  const int64_t groups = Pick(random, {1, 1, 1, 2, 3, 16});
  const bool depthwise = groups == 16 && random.Below(2) == 0;
  const int64_t c = depthwise ? 1 : Pick(random, {1, 3, 8, 16, 17});
  const int64_t k = depthwise ? 1 : Pick(random, {1, 5, 8, 16, 19});
  Convolution conv;
  std::vector<int64_t> x = {Pick(random, {1, 2, 3}), c * groups};
  std::vector<int64_t> w = {k * groups, c};
  std::vector<int64_t> y = {x[0], w[0]};
  Ints stride;
  Ints pad_begin;
  Ints pad_end;
  Ints dilation;
  for (int i = 0; i < rank; ++i) {
    w.push_back(Pick(random, {1, 2, 3, 5}));
    stride.push_back(Pick(random, {1, 1, 2, 3}));
    dilation.push_back(Pick(random, {1, 1, 1, 2}));
    pad_begin.push_back(static_cast<int64_t>(random.Below(3)));
    pad_end.push_back(static_cast<int64_t>(random.Below(3)));
    const int64_t extent = dilation.back() * (w.back() - 1) + 1;
    x.push_back(std::max<int64_t>(1, extent - pad_begin.back() - pad_end.back()) +
                static_cast<int64_t>(random.Below(7)));
    y.push_back((x.back() + pad_begin.back() + pad_end.back() - extent) / stride.back() + 1);
  }
  conv.x = Shape(x);
  conv.w = Shape(w);
  conv.y = Shape(y);
  conv.geometry = ConvolutionCase(stride, pad_begin, pad_end, dilation, groups);
  return conv;
}

TensorType Type(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

OpCase Forward(const Convolution& c, bool bias) {
  OpCase op_case{"forward", {Type(c.x), Type(c.w)}, c.geometry};
  if (bias) op_case.inputs.push_back(Type(Shape{c.w[0]}));
  return op_case;
}
OpCase BackwardData(const Convolution& c) {
  return {"data", {Type(c.y), Type(c.w)}, With(c.geometry, {{"input_shape", DimsOf(c.x)}})};
}
OpCase BackwardWeights(const Convolution& c, bool bias) {
  return {"weights", {Type(c.x), Type(c.y)}, With(c.geometry, {{"weight_shape", DimsOf(c.w)}, {"bias", bias}})};
}

std::string BlockedName(const Shape& shape) { return shape.rank() == 4 ? "aBcd16b" : ""; }

// Everything is accepted: there is no convolution oneDNN does not have.
TEST(OnednnConvolution, RandomGeometriesMatchTheReference) {
  RandomStream random(20221, 3);
  std::map<std::string, int> implementations;
  for (int i = 0; i < 60; ++i) {
    const Convolution c = RandomConvolution(random);
    const bool bias = random.Below(2) == 0;
    const bool blocked = random.Below(2) == 0;
    const std::string layout = blocked ? BlockedName(c.x) : "";
    SCOPED_TRACE(StrCat("geometry ", i, " ", c.x.ToString(), c.w.ToString(), c.geometry.ToString()));
    const Checked checks[] = {
        CheckProposal("onednn", "convolution", Forward(c, bias), {{layout}, {}}),
        CheckProposal("onednn", "convolution_backward_data", BackwardData(c), {{layout}, {}}),
        CheckProposal("onednn", "convolution_backward_weights", BackwardWeights(c, bias), {{layout, layout}, {}})};
    for (const Checked& checked : checks) {
      EXPECT_EQ(checked.refusal, "");
      ++implementations[checked.implementation];
    }
  }
  for (const auto& [name, count] : implementations) RecordProperty(name, count);
  EXPECT_GE(implementations.size(), 2U);
}

TEST(OnednnConvolution, PlainLayoutsAreAcceptedEverywhere) {
  RandomStream random(5, 9);
  for (int i = 0; i < 25; ++i) {
    const Convolution c = RandomConvolution(random);
    EXPECT_EQ(CheckKernel("onednn", "convolution", Forward(c, true), {}).refusal, "");
    EXPECT_EQ(CheckKernel("onednn", "convolution_backward_data", BackwardData(c), {}).refusal, "");
    EXPECT_EQ(CheckKernel("onednn", "convolution_backward_weights", BackwardWeights(c, true), {}).refusal, "");
  }
}

const Convolution kOdd = {Shape{2, 19, 7, 6}, Shape{35, 19, 3, 3}, Shape{2, 35, 7, 6},
                          ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1})};

TEST(OnednnConvolution, ChannelsThatFillNoBlockHaveZeroPadding) {
  for (const auto& [x, w] : {std::pair("aBcd8b", "ABcd8b8a"), std::pair("aBcd16b", "ABcd16b16a")}) {
    const Checked checked = CheckKernel("onednn", "convolution", Forward(kOdd, true), {{x, w}, {x}});
    EXPECT_EQ(checked.refusal, "") << x;
  }
}

TEST(OnednnConvolution, SumAndReluAreFused) {
  for (const bool relu : {false, true}) {
    for (const bool bias : {false, true}) {
      OpCase op_case = Forward(kOdd, bias);
      op_case.inputs.push_back(Type(kOdd.y));
      op_case.attributes.Set("sum", true);
      op_case.attributes.Set("activation", std::string(relu ? "relu" : ""));
      const Checked checked = CheckProposal("onednn", "convolution", op_case, {});
      EXPECT_EQ(checked.refusal, "");
      EXPECT_EQ(checked.inputs.back(), checked.outputs[0]);
    }
  }
}

TEST(OnednnConvolution, ASummandThatLiesOtherwiseIsRefused) {
  OpCase op_case = Forward(kOdd, false);
  op_case.inputs.push_back(Type(kOdd.y));
  op_case.attributes.Set("sum", true);
  EXPECT_EQ(CheckKernel("onednn", "convolution", op_case, {{"", "", "aBcd16b"}, {}}).refusal,
            "the summand float32[2,35,7,6]:aBcd16b does not lie as the output float32[2,35,7,6]");
}

TEST(OnednnConvolution, GroupedWeightsKeepBlocksWhereGroupsAreWholeBlocks) {
  const Convolution depthwise = {Shape{2, 32, 9, 9}, Shape{32, 1, 3, 3}, Shape{2, 32, 9, 9},
                                 ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 32)};
  const Convolution whole = {Shape{2, 64, 9, 9}, Shape{64, 32, 3, 3}, Shape{2, 64, 9, 9},
                             ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2)};
  for (const Convolution& c : {depthwise, whole}) {
    const Checked checks[] = {CheckProposal("onednn", "convolution", Forward(c, true), {}),
                              CheckProposal("onednn", "convolution_backward_data", BackwardData(c), {}),
                              CheckProposal("onednn", "convolution_backward_weights", BackwardWeights(c, true), {})};
    for (const Checked& checked : checks) EXPECT_EQ(checked.refusal, "");
    EXPECT_FALSE(checks[0].inputs[1].layout.is_plain()) << checks[0].implementation;
    EXPECT_EQ(checks[2].outputs[0].layout, checks[0].inputs[1].layout) << checks[2].implementation;
  }
}

TEST(OnednnConvolution, WeightBlocksAcrossGroupsAreRefused) {
  const Convolution c = {Shape{1, 16, 5, 5}, Shape{48, 8, 3, 3}, Shape{1, 48, 5, 5},
                         ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2)};
  EXPECT_EQ(CheckKernel("onednn", "convolution", Forward(c, false), {{"", "ABcd8b16a"}, {}}).refusal,
            "the blocks of the weights float32[48,8,3,3]:ABcd8b16a cross the borders of 2 groups");
}

// A layout that is there already is kept when the same implementation runs on it, and the gradients use the forward
// layouts.
TEST(OnednnConvolution, NeighborsAgreeOnLayouts) {
  const Convolution c = {Shape{2, 64, 14, 14}, Shape{64, 64, 3, 3}, Shape{2, 64, 14, 14},
                         ConvolutionCase({1, 1}, {1, 1}, {1, 1}, {1, 1})};
  const Checked forward = CheckProposal("onednn", "convolution", Forward(c, false), {});
  const auto x = forward.inputs[0].layout.Name(4);
  const Checked again = CheckProposal("onednn", "convolution", Forward(c, false), {{x}, {}});
  EXPECT_EQ(LayoutNames(again.inputs), LayoutNames(forward.inputs));
  const Checked data = CheckProposal("onednn", "convolution_backward_data", BackwardData(c), {{x}, {}});
  EXPECT_EQ(data.inputs[0].layout, forward.outputs[0].layout);
  EXPECT_EQ(data.outputs[0].layout, forward.inputs[0].layout);
  const Checked weights =
      CheckProposal("onednn", "convolution_backward_weights", BackwardWeights(c, false), {{x, x}, {}});
  EXPECT_EQ(weights.outputs[0].layout, forward.inputs[1].layout);
}

TEST(OnednnConvolution, EmptyBatchesAreRefused) {
  Convolution c = kOdd;
  c.x = c.x.With(0, 0);
  EXPECT_EQ(CheckKernel("onednn", "convolution", Forward(c, false), {}).refusal,
            "the tensor float32[0,19,7,6] is empty");
}

}  // namespace
}  // namespace moka
