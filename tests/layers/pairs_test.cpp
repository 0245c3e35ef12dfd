// Convolutions of bfloat16 by tiles of pairs against the reference in double: random shapes, windows and threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "core/rng.h"
#include "core/text.h"
#include "layers/kernels/cpu/matmul/gemm.h"
#include "layers/ops/cases.h"
#include "tests/layers/kernel_check.h"
#include "tests/threads.h"

namespace moka {
namespace {

constexpr double kRounding = 0x1p-8;  // of the largest result: it is rounded once

int64_t Pick(RandomStream& random, const std::vector<int64_t>& values) { return values[random.Below(values.size())]; }
int64_t Between(RandomStream& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random.Below(static_cast<uint64_t>(high - low + 1)));
}

TensorType BFloat16(const Shape& shape) { return {DType::kBFloat16, shape, {}}; }

class PairsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gemm::PairTiles(32) == nullptr) GTEST_SKIP() << "the processor does not multiply pairs of bfloat16";
  }
  static void Expect(const char* op, OpCase op_case, size_t images) {
    op_case.tolerance = kRounding;
    ChosenLayouts layouts{std::vector<std::string>(op_case.inputs.size()), {"acdb"}};
    for (size_t i = 0; i < layouts.inputs.size(); ++i) {
      if (i != images && op_case.inputs[i].shape.rank() == 4) layouts.inputs[i] = "acdb";
    }
    const Checked checked = CheckKernel("pairs", op, op_case, layouts);
    EXPECT_EQ(checked.refusal, "");
  }
};

// dy [images, outputs, rows, columns] of a window, and what x is then.
struct Window {
  int64_t images, inputs, outputs, rows, columns;
  std::array<int64_t, 2> taps, stride, pad, dilation;

  Shape dy() const { return {images, outputs, rows, columns}; }
  Shape x() const { return {images, inputs, SideOf(0, rows), SideOf(1, columns)}; }
  OpCase WeightsCase(bool bias) const {
    Attributes attributes =
        ConvolutionCase({stride[0], stride[1]}, {pad[0], pad[1]}, {0, 0}, {dilation[0], dilation[1]}, 1);
    attributes.Set("weight_shape", Ints{outputs, inputs, taps[0], taps[1]});
    attributes.Set("bias", bias);
    return {"pairs", {BFloat16(x()), BFloat16(dy())}, attributes};
  }

 private:
  int64_t SideOf(size_t axis, int64_t positions) const {
    return stride[axis] * (positions - 1) + dilation[axis] * (taps[axis] - 1) + 1 - pad[axis];
  }
};

TEST_F(PairsTest, WeightsOfRandomWindows) {
  RandomStream random(79, 1);
  for (int i = 0; i < 60; ++i) {
    Window w{.images = Pick(random, {1, 2, 5}),
             .inputs = Pick(random, {16, 17, 32, 40, 64, 130}),
             .outputs = Pick(random, {16, 21, 33, 64, 270}),
             .rows = Between(random, 1, 12),
             .columns = Between(random, 1, 12),
             .taps = {1, 1},
             .stride = {1, 1},
             .pad = {0, 0},
             .dilation = {1, 1}};
    for (size_t axis = 0; axis < 2; ++axis) {
      w.taps[axis] = Between(random, 1, 3);
      w.stride[axis] = Between(random, 1, 2);
      w.dilation[axis] = Between(random, 1, 2);
      w.pad[axis] = Between(random, 0, w.taps[axis] - 1);
    }
    if (std::ranges::min(std::array{w.x()[2], w.x()[3]}) < 1) continue;
    const Threads threads(static_cast<int>(Between(random, 1, 5)));
    SCOPED_TRACE(StrCat("shape ", i));
    Expect("convolution_backward_weights", w.WeightsCase(random.Below(2) == 0), 2);
  }
}

// Positions of several chunks, and several parts of them.
TEST_F(PairsTest, WeightsOfManyPositions) {
  for (const auto& [images, side, taps] :
       {std::tuple<int64_t, int64_t, int64_t>{4, 40, 1}, {3, 61, 1}, {2, 52, 3}, {1, 33, 3}}) {
    const Window w{images, 24, 40, side, side, {taps, taps}, {1, 1}, {taps / 2, taps / 2}, {1, 1}};
    Expect("convolution_backward_weights", w.WeightsCase(true), 2);
  }
}

TEST_F(PairsTest, PointwiseWithAllThatIsFused) {
  RandomStream random(80, 1);
  for (int i = 0; i < 60; ++i) {
    const int64_t images = Pick(random, {1, 2, 7});
    const int64_t inputs = Pick(random, {2, 16, 32, 96, 64, 544, 1056});
    const int64_t outputs = Pick(random, {16, 17, 31, 64, 100});
    const int64_t rows = Between(random, 1, 9);
    const int64_t columns = Between(random, 1, 9);
    const Attributes window = ConvolutionCase({1, 1}, {0, 0}, {0, 0}, {1, 1});
    const Shape x{images, inputs, rows, columns};
    const Shape y{images, outputs, rows, columns};
    const Shape weights{outputs, inputs, 1, 1};
    OpCase forward{"pairs", {BFloat16(x), BFloat16(weights)}, window};
    if (random.Below(2) == 0) {
      const DType bias = random.Below(2) == 0 ? DType::kFloat32 : DType::kBFloat16;
      forward.inputs.push_back({bias, Shape{outputs}, {}});
    }
    if (random.Below(2) == 0) {
      forward.inputs.push_back(BFloat16(y));
      forward.attributes.Set("sum", true);
    }
    if (random.Below(2) == 0) forward.attributes.Set("activation", std::string("relu"));
    const Threads threads(static_cast<int>(Between(random, 1, 4)));
    SCOPED_TRACE(StrCat("shape ", i));
    Expect("convolution", forward, 1);
    OpCase backward{
        "pairs", {BFloat16(Shape{images, inputs, rows, columns}), BFloat16(Shape{inputs, outputs, 1, 1})}, window};
    backward.attributes.Set("input_shape", Ints{images, outputs, rows, columns});
    Expect("convolution_backward_data", backward, 1);
  }
}

}  // namespace
}  // namespace moka
