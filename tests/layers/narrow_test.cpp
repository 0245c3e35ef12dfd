// The gradient of an x of few channels against the reference: random windows, strides, paddings and layouts of the
// weights, with every instruction set this machine has.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/ops/cases.h"
#include "tests/layers/kernel_check.h"

namespace moka {
namespace {

constexpr const char* kOp = "convolution_backward_data";

std::vector<int64_t> Blocks() {
  std::vector<int64_t> blocks;
  if (HasAvx512()) blocks.push_back(16);
  if (HasAvx2()) blocks.push_back(8);
  return blocks;
}

struct Problem {
  Shape x;
  Shape w;
  Ints stride{2, 2};
  Ints pad_begin{1, 1};
  Ints pad_end{1, 1};
};

OpCase Case(const Problem& p) {
  const auto outputs = [&](int axis) {
    const auto i = static_cast<size_t>(axis);
    return (p.x[axis + 2] + p.pad_begin[i] + p.pad_end[i] - p.w[axis + 2]) / p.stride[i] + 1;
  };
  const Shape dy{p.x[0], p.w[0], outputs(0), outputs(1)};
  const Attributes attributes =
      With(ConvolutionCase(p.stride, p.pad_begin, p.pad_end, {1, 1}, 1), {{"input_shape", DimsOf(p.x)}});
  OpCase op_case{"narrow", {{DType::kFloat32, dy, {}}, {DType::kFloat32, p.w, {}}}, attributes};
  // A few ulps of sums of up to 3,000 products.
  op_case.tolerance = 2e-6;
  return op_case;
}

std::string Data(int64_t block) { return StrCat("aBcd", block, "b"); }
std::vector<std::string> WeightLayouts(int64_t block) {
  const std::string l = StrCat(block);
  return {
      "", "ABcd" + l + "b" + l + "a", "ABcd" + l + "a" + l + "b", "Abcd" + l + "a", "aBcd" + l + "b", "Acdb" + l + "a"};
}

Problem RandomProblem(RandomStream& random) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random.Below(n)); };
  Problem p;
  p.w = Shape{1 + below(40), 1 + below(4), 1 + below(5), 1 + below(5)};
  p.stride = {1 + below(3), 1 + below(3)};
  p.pad_begin = {below(4), below(4)};
  p.pad_end = {below(4), below(4)};
  const auto size = [&](int axis) {
    const auto i = static_cast<size_t>(axis);
    return std::max<int64_t>(1, p.w[axis + 2] - p.pad_begin[i] - p.pad_end[i]) + below(37);
  };
  const int64_t height = size(0);
  p.x = Shape{1 + below(3), p.w[1], height, size(1)};
  return p;
}

TEST(NarrowBackwardData, RandomShapesMatchTheReference) {
  RandomStream random(5, 1);
  const int before = ThreadCount();
  for (int i = 0; i < 60; ++i) {
    const Problem p = RandomProblem(random);
    SetThreadCount(static_cast<int>(1 + random.Below(5)));
    for (const int64_t block : Blocks()) {
      const std::string weights = WeightLayouts(block)[random.Below(6)];
      SCOPED_TRACE(StrCat(p.x.ToString(), p.w.ToString(), " weights ", weights));
      const Checked checked = CheckKernel("narrow", kOp, Case(p), {{Data(block), weights}, {}});
      EXPECT_EQ(checked.refusal, "");
      EXPECT_EQ(checked.implementation, block == 16 ? "lanes:avx512" : "lanes:avx2");
    }
  }
  SetThreadCount(before);
}

TEST(NarrowBackwardData, ImagesOfAGenerator) {
  const Problem p = {Shape{2, 3, 64, 64}, Shape{64, 3, 4, 4}};
  for (const int64_t block : Blocks()) {
    for (const std::string& weights : WeightLayouts(block)) {
      EXPECT_EQ(CheckKernel("narrow", kOp, Case(p), {{Data(block), weights}, {}}).refusal, "");
    }
  }
}

TEST(NarrowBackwardData, ProposesBlocksOfDyAndAPlainResult) {
  if (Blocks().empty()) GTEST_SKIP() << "no vectors here";
  const Problem p = {Shape{1, 3, 8, 8}, Shape{32, 3, 4, 4}};
  const Checked checked = CheckProposal("narrow", kOp, Case(p), {});
  EXPECT_EQ(checked.refusal, "");
  EXPECT_EQ(LayoutNames(checked.inputs), (std::vector<std::string>{Data(Blocks().front()), "abcd"}));
  EXPECT_EQ(LayoutNames(checked.outputs), (std::vector<std::string>{"abcd"}));
}

TEST(NarrowBackwardData, SaysWhatItRefuses) {
  const Problem p = {Shape{1, 3, 8, 8}, Shape{32, 3, 4, 4}};
  const auto refusal = [](const OpCase& op_case, const ChosenLayouts& layouts) {
    return CheckKernel("narrow", kOp, op_case, layouts).refusal;
  };
  EXPECT_EQ(refusal(Case(p), {}), "only channel blocks of 16 with AVX-512 or of 8 with AVX2, found float32[1,32,4,4]");
  EXPECT_EQ(refusal(Case({Shape{1, 5, 8, 8}, Shape{32, 5, 4, 4}}), {}), "only for up to 4 channels of x, found 5");
  for (const int64_t block : Blocks()) {
    EXPECT_EQ(refusal(Case(p), {{Data(block)}, {Data(block)}}),
              StrCat("x is not plain: float32[1,3,8,8]:", Data(block)));
    EXPECT_EQ(refusal(Case(p), {{Data(block), "acdb"}, {}}),
              StrCat("the weights float32[32,3,4,4]:acdb are neither plain nor in blocks of ", block));
  }
}

}  // namespace
}  // namespace moka
