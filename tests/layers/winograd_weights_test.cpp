// The weights' gradient by Winograd's algorithm against the reference in double: random shapes, paddings, layouts and
// groups, with every instruction set this machine has, in each of the four orders of work.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/winograd/weights_plan.h"
#include "layers/ops/cases.h"
#include "tests/layers/kernel_check.h"
#include "tests/threads.h"

namespace moka {
namespace {

constexpr const char* kOp = "convolution_backward_weights";

struct Problem {
  int64_t images;
  int64_t channels;
  int64_t outputs;
  int64_t height;  // of dy
  int64_t width;
  std::array<int64_t, 4> pads{1, 1, 1, 1};  // top, left, bottom, right
  int64_t groups = 1;
  int64_t window = 3;  // of stride 1; 4 of stride 2
};

OpCase Case(const Problem& p, bool bias) {
  const auto& [top, left, bottom, right] = p.pads;
  const int64_t stride = p.window == 3 ? 1 : 2;
  const int64_t overlap = p.window - stride;
  const Shape x{p.images, p.channels, p.height * stride + overlap - top - bottom,
                p.width * stride + overlap - left - right};
  const Shape dy{p.images, p.outputs, p.height, p.width};
  Attributes attributes = ConvolutionCase({stride, stride}, {top, left}, {bottom, right}, {1, 1}, p.groups);
  attributes.Set("weight_shape", Ints{p.outputs, p.channels / p.groups, p.window, p.window});
  attributes.Set("bias", bias);
  OpCase op_case{"winograd", {{DType::kFloat32, x, {}}, {DType::kFloat32, dy, {}}}, attributes};
  op_case.tolerance = 5e-6;
  return op_case;
}

// The layouts of x, dy and dw with channel blocks of `block`.
ChosenLayouts Blocked(int64_t block, const std::string& dw) {
  const std::string data = StrCat("aBcd", block, "b");
  return {{data, data}, {dw}};
}
std::vector<std::string> WeightLayouts(int64_t block) {
  return {StrCat("ABcd", block, "b", block, "a"), StrCat("ABcd", block, "a", block, "b"), ""};
}

bool Has(int64_t block) { return block == 16 ? HasAvx512() : HasAvx2(); }

std::vector<int64_t> Blocks() {
  std::vector<int64_t> blocks;
  for (const int64_t block : {16, 8}) {
    if (Has(block)) blocks.push_back(block);
  }
  return blocks;
}

int64_t Pick(RandomStream& random, const std::vector<int64_t>& values) { return values[random.Below(values.size())]; }

Problem RandomProblem(RandomStream& random, int64_t window) {
  Problem p{.images = Pick(random, {1, 2, 3, 19}),
            .channels = Pick(random, {1, 3, 8, 16, 17, 40, 64}),
            .outputs = Pick(random, {1, 5, 8, 16, 33, 48, 80}),
            .height = 1 + static_cast<int64_t>(random.Below(13)),
            .width = 1 + static_cast<int64_t>(random.Below(13))};
  for (int64_t& pad : p.pads) pad = static_cast<int64_t>(random.Below(static_cast<uint64_t>(window)));
  // x has at least one row and column.
  p.height = std::max(p.height, p.pads[0] + p.pads[2] - 1);
  p.width = std::max(p.width, p.pads[1] + p.pads[3] - 1);
  p.window = window;
  return p;
}

void MatchTheReference(int64_t window, const std::string& implementation) {
  RandomStream random(77, 1);
  for (int i = 0; i < 40; ++i) {
    const Problem p = RandomProblem(random, window);
    const bool bias = random.Below(2) == 0;
    const Threads threads(static_cast<int>(1 + random.Below(5)));
    for (const int64_t block : Blocks()) {
      const std::string dw = WeightLayouts(block)[random.Below(3)];
      SCOPED_TRACE(StrCat("shape ", i));
      const Checked checked = CheckKernel("winograd", kOp, Case(p, bias), Blocked(block, dw));
      EXPECT_EQ(checked.refusal, "");
      EXPECT_EQ(checked.implementation, implementation + (block == 16 ? "avx512" : "avx2"));
    }
  }
}

TEST(WinogradWeights, RandomShapesMatchTheReference) { MatchTheReference(3, "f3x4:"); }
TEST(WinogradWeights, RandomShapesOfStrideTwoMatchTheReference) { MatchTheReference(4, "f2x4:"); }

// Few channels; many channels with up to 128 tiles; many channels and tiles.
constexpr Problem kPrivate = {2, 20, 36, 23, 18};
constexpr Problem kWhole = {1, 130, 128, 5, 6};
constexpr Problem kShared = {130, 130, 128, 1, 1, {0, 0, 0, 0}};
// The same with phases.
constexpr Problem kPrivatePhases = {2, 20, 36, 23, 18, {1, 1, 1, 1}, 1, 4};
constexpr Problem kWholePhases = {1, 60, 128, 5, 6, {1, 1, 1, 1}, 1, 4};
constexpr Problem kSharedPhases = {130, 60, 128, 1, 1, {0, 0, 0, 0}, 1, 4};
constexpr std::array kOrders = {kPrivate, kWhole, kShared, kPrivatePhases, kWholePhases, kSharedPhases};
// These have narrow tiles, whose planes fill segments.
constexpr std::array kNarrow = {Problem{6, 20, 36, 14, 13}, Problem{3, 130, 128, 7, 6}, Problem{33, 130, 128, 5, 7}};

// If there are few tiles, the threads cut the channels; if many, the tiles.
TEST(WinogradWeights, FewTilesAreCutByChannels) {
  using winograd::GradientMode;
  if (Blocks().empty()) GTEST_SKIP() << "no such vectors";
  winograd::GradientProblem p;
  p.lanes = winograd::WeightsLanesFor(Blocks()[0], 3, false);
  p.c_panels = p.k_panels = 4;
  p.tiles = 16;
  const winograd::GradientPlan few = winograd::PlanGradient(p, 4);
  EXPECT_EQ(few.mode, GradientMode::kParts);
  EXPECT_EQ(few.c_parts * few.k_parts, 4);
  EXPECT_EQ(winograd::PlanGradient(p, 1).mode, GradientMode::kPrivate);
  p.tiles = 1024;
  EXPECT_EQ(winograd::PlanGradient(p, 4).mode, GradientMode::kPrivate);
}

// Every kind of narrow tiles, with and without whole ones beside it, and each order of work.
TEST(WinogradWeights, NarrowTilesMatchTheReference) {
  std::vector<Problem> problems(kNarrow.begin(), kNarrow.end());
  for (const int64_t height : {3, 4, 5, 6, 7, 14}) {
    for (const int64_t width : {4, 5, 6, 7, 13}) problems.push_back({5, 20, 24, height, width});
  }
  for (const Problem& p : problems) {
    for (const int64_t block : Blocks()) {
      SCOPED_TRACE(StrCat(p.channels, " channels, ", p.height, "x", p.width));
      const Checked checked = CheckKernel("winograd", kOp, Case(p, true), Blocked(block, WeightLayouts(block)[0]));
      EXPECT_EQ(checked.refusal, "");
      EXPECT_LE(checked.worst_error, 2e-6);
    }
  }
}

// The tiles of a chunk that take part at a point are neighbours, and as many as have the point.
TEST(WinogradWeights, NarrowTilesAreLeftOutOfProducts) {
  if (Blocks().empty()) GTEST_SKIP() << "no such vectors";
  winograd::GradientProblem p;
  p.lanes = winograd::WeightsLanesFor(Blocks()[0], 3, false);
  p.kinds = winograd::KindsOf(14, 7, true);  // columns of 4 and 3; rows of 4, 4, 4 and 2
  p.unit = 8;
  const auto range = [&](int64_t row, int64_t column) {
    const winograd::TileRange r = winograd::TilesAt(p, 6 * row + column, 24);
    return std::array{r.begin, r.end};
  };
  EXPECT_EQ(range(1, 1), (std::array<int64_t, 2>{0, 24}));
  EXPECT_EQ(range(1, 4), (std::array<int64_t, 2>{9, 21}));  // not those on the right and in the corner
  EXPECT_EQ(range(3, 3), (std::array<int64_t, 2>{0, 18}));  // not those below and in the corner
  EXPECT_EQ(range(4, 4), (std::array<int64_t, 2>{9, 18}));
}

TEST(WinogradWeights, EveryOrderOfWorkFillsEveryLayout) {
  for (const Problem& p : kOrders) {
    for (const int64_t block : Blocks()) {
      for (const std::string& dw : WeightLayouts(block)) {
        EXPECT_EQ(CheckKernel("winograd", kOp, Case(p, true), Blocked(block, dw)).refusal, "");
      }
    }
  }
}

TEST(WinogradWeights, MoreThreadsThanWorkAreNoHarm) {
  const Threads threads(9);
  std::vector<Problem> problems(kOrders.begin(), kOrders.end());
  problems.push_back({1, 16, 16, 1, 1});
  for (const Problem& p : problems) {
    for (const int64_t block : Blocks()) {
      const Checked checked = CheckKernel("winograd", kOp, Case(p, true), Blocked(block, WeightLayouts(block)[0]));
      EXPECT_EQ(checked.refusal, "");
    }
  }
}

TEST(WinogradWeights, GroupsOfWholeBlocks) {
  for (const int64_t window : {3, 4}) {
    const Problem p = {2, 96, 48, 7, 9, {1, 1, 1, 1}, 3, window};
    for (const int64_t block : Blocks()) {
      for (const std::string& dw : WeightLayouts(block)) {
        EXPECT_EQ(CheckKernel("winograd", kOp, Case(p, true), Blocked(block, dw)).refusal, "");
      }
    }
  }
}

// The error must not grow with the number of tiles: 2,304 tiles in sums of few channels.
TEST(WinogradWeights, ManyTilesKeepTheirPrecision) {
  for (const int64_t window : {3, 4}) {
    const Problem p = {1, 8, 8, 192, 192, {1, 1, 1, 1}, 1, window};
    for (const int64_t block : Blocks()) {
      OpCase op_case = Case(p, true);
      op_case.tolerance = 2e-6;
      EXPECT_EQ(CheckKernel("winograd", kOp, op_case, Blocked(block, WeightLayouts(block)[0])).refusal, "");
    }
  }
}

TEST(WinogradWeights, ProposesTheBlocksOfXOrTheWidest) {
  if (Blocks().empty()) GTEST_SKIP() << "no vectors here";
  const Problem p = {2, 32, 16, 8, 8};
  const int64_t widest = Blocks().front();
  EXPECT_EQ(LayoutNames(CheckProposal("winograd", kOp, Case(p, false), {}).inputs)[0], StrCat("aBcd", widest, "b"));
  for (const int64_t block : Blocks()) {
    const std::string data = StrCat("aBcd", block, "b");
    const Checked checked = CheckProposal("winograd", kOp, Case(p, false), {{data, data}, {}});
    EXPECT_EQ(checked.refusal, "");
    EXPECT_EQ(LayoutNames(checked.outputs)[0], StrCat("ABcd", block, "b", block, "a"));
  }
}

TEST(WinogradWeights, SaysWhatItRefuses) {
  const Problem p = {2, 32, 32, 8, 8};
  const auto refusal = [](const OpCase& op_case, const ChosenLayouts& layouts) {
    return CheckKernel("winograd", kOp, op_case, layouts).refusal;
  };
  EXPECT_EQ(refusal(Case(p, false), {}),
            "only channel blocks of 16 with AVX-512 or of 8 with AVX2, found float32[2,32,8,8]");
  OpCase strided = Case(p, false);
  strided.attributes.Set("stride", Ints{2, 2});
  strided.inputs[1].shape = Shape{2, 32, 4, 4};
  const std::string windows = "only 3x3 windows of stride 1 and 4x4 windows of stride 2, found weights ";
  EXPECT_EQ(refusal(strided, {}), windows + "[32,32,3,3] and stride [2,2]");
  OpCase small = Case(p, false);
  small.attributes.Set("weight_shape", Ints{32, 32, 1, 3});
  small.inputs[1].shape = Shape{2, 32, 10, 8};
  EXPECT_EQ(refusal(small, {}), windows + "[32,32,1,3] and stride [1,1]");
  for (const int64_t block : Blocks()) {
    const std::string data = StrCat("aBcd", block, "b");
    EXPECT_EQ(refusal(Case(p, false), {{data, ""}, {}}), "x and dy lie differently");
    EXPECT_EQ(refusal(Case(p, false), {{data, data}, {"ABcd4b4a"}}),
              "the gradient float32[32,32,3,3]:ABcd4b4a lies in other blocks than x");
    EXPECT_EQ(refusal(Case({2, 24, 32, 8, 8, {1, 1, 1, 1}, 2}, false), {{data, data}, {}}),
              StrCat("the 2 groups of float32[32,12,3,3] are not whole blocks of ", block));
  }
}

}  // namespace
}  // namespace moka
