// oneDNN's other kernels, and Moka's own beside them, against the references under random shapes and layouts.
#include <gtest/gtest.h>

#include "core/rng.h"
#include "core/text.h"
#include "layers/ops/cases.h"
#include "tests/layers/kernel_check.h"

namespace moka {
namespace {

constexpr const char* kLayouts[] = {"", "aBcd16b", "aBcd8b", "acdb"};

int64_t Pick(RandomStream& random, const std::vector<int64_t>& values) { return values[random.Below(values.size())]; }
TensorType Type(std::initializer_list<int64_t> dims) { return Float32(dims); }

Attributes LrnCase(int64_t size, std::string region) {
  return {{"size", size}, {"alpha", 0.9}, {"beta", 0.75}, {"k", 2.0}, {"region", std::move(region)}};
}
Attributes MatmulCase(bool transpose_a, bool transpose_b, std::string activation) {
  return {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}, {"activation", std::move(activation)}};
}

TEST(OnednnMatmul, RandomProductsMatchTheReference) {
  RandomStream random(31, 4);
  for (int i = 0; i < 40; ++i) {
    const int64_t m = Pick(random, {1, 2, 7, 16, 33});
    const int64_t n = Pick(random, {1, 3, 16, 50});
    const int64_t k = Pick(random, {1, 5, 16, 70});
    const int64_t batch = Pick(random, {0, 0, 1, 3});
    const bool ta = random.Below(2) == 0;
    const bool tb = random.Below(2) == 0;
    Shape a = ta ? Shape{k, m} : Shape{m, k};
    Shape b = tb ? Shape{n, k} : Shape{k, n};
    if (batch > 0) {
      a = a.Inserted(0, batch);
      b = b.Inserted(0, batch);
    }
    OpCase op_case{"product",
                   {{DType::kFloat32, a, {}}, {DType::kFloat32, b, {}}},
                   MatmulCase(ta, tb, random.Below(2) == 0 ? "relu" : "")};
    if (random.Below(2) == 0) op_case.inputs.push_back(Type({n}));
    EXPECT_EQ(CheckKernel("onednn", "matmul", op_case, {}).refusal, "");
    EXPECT_EQ(CheckProposal("onednn", "matmul", op_case, {}).refusal, "");
  }
}

TEST(OnednnMatmul, PackedWeightsWorkTransposedOrNot) {
  for (const bool transposed : {false, true}) {
    const OpCase op_case{
        "packed", {Type({8, 32}), transposed ? Type({48, 32}) : Type({32, 48})}, MatmulCase(false, transposed, "")};
    const Checked checked = CheckKernel("onednn", "matmul", op_case, {{"", transposed ? "ba" : "ba"}, {}});
    EXPECT_EQ(checked.refusal, "");
  }
}

Attributes RandomPool(RandomStream& random, int64_t kernel) {
  const auto pad = [&] { return static_cast<int64_t>(random.Below(static_cast<uint64_t>(kernel))); };
  const int64_t p = pad();
  const int64_t q = pad();
  return PoolCase({kernel, kernel}, {Pick(random, {1, 2, 3}), 2}, {p, q}, {p, q});
}

// Ties are frequent: the values are small whole numbers.
TEST(PoolMax, BothKernelsTakeTheFirstMaximum) {
  RandomStream random(77, 2);
  for (int i = 0; i < 30; ++i) {
    const int64_t kernel = Pick(random, {2, 3, 5});
    OpCase op_case{"pool", {Type({2, Pick(random, {3, 8, 16, 20}), 9, 11})}, RandomPool(random, kernel)};
    op_case.low = -2;
    op_case.high = 2;
    for (const char* layout : kLayouts) {
      CheckProposal("onednn", "pool_max", op_case, {{layout}, {}});
      EXPECT_EQ(CheckProposal("moka", "pool_max", op_case, {{layout}, {}}).refusal, "");
    }
  }
}

TEST(PoolMax, LargeWindowsUseInt32) {
  const OpCase op_case{"global", {Type({2, 16, 17, 17})}, PoolCase({17, 17}, {1, 1}, {0, 0}, {0, 0})};
  for (const char* layout : kLayouts) {
    const Checked checked = CheckProposal("moka", "pool_max", op_case, {{layout}, {}});
    EXPECT_EQ(checked.refusal, "");
    EXPECT_EQ(checked.outputs[1].dtype, DType::kInt32);
    CheckProposal("onednn", "pool_max", op_case, {{layout}, {}});
  }
}

TEST(PoolMax, OneAndThreeDimensions) {
  const OpCase one{"one", {Type({2, 5, 13})}, PoolCase({3}, {2}, {1}, {1})};
  const OpCase three{"three", {Type({1, 4, 5, 6, 7})}, PoolCase({2, 3, 2}, {1, 2, 2}, {0, 1, 0}, {1, 1, 0})};
  for (const OpCase& op_case : {one, three}) {
    EXPECT_EQ(CheckProposal("moka", "pool_max", op_case, {}).refusal, "");
    CheckProposal("onednn", "pool_max", op_case, {});
  }
}

// The gradient goes where argmax points, also where windows overlap or hang over the border.
TEST(PoolMax, BothGradientsFollowArgmax) {
  for (const char* layout : kLayouts) {
    for (const int64_t channels : {3, 16, 20}) {
      OpCase op_case{"gradient",
                     {Type({2, channels, 4, 4}), {DType::kUInt8, Shape{2, channels, 4, 4}, {}}},
                     With(PoolCase({3, 3}, {2, 2}, {1, 1}, {1, 1}), {{"input_shape", Ints{2, channels, 8, 8}}})};
      op_case.ranges = {{1, 4, 5}};  // positions inside the input under every window
      CheckProposal("onednn", "pool_max_backward", op_case, {{layout, layout}, {}});
      EXPECT_EQ(CheckProposal("moka", "pool_max_backward", op_case, {{layout, layout}, {}}).refusal, "");
    }
  }
}

TEST(PoolAverage, DivisorsOnednnHasAreRunOthersRefused) {
  const Attributes geometry = PoolCase({3, 3}, {2, 2}, {1, 1}, {1, 1});
  const auto counted = [&](int64_t begin, int64_t end) {
    return With(geometry, {{"count_begin", Ints{begin, begin}}, {"count_end", Ints{end, end}}});
  };
  for (const char* layout : kLayouts) {
    const OpCase include{"include", {Type({2, 20, 7, 7})}, counted(1, 1)};
    const OpCase exclude{"exclude", {Type({2, 20, 7, 7})}, counted(0, 0)};
    for (const OpCase& op_case : {include, exclude}) {
      EXPECT_EQ(CheckProposal("onednn", "pool_average", op_case, {{layout}, {}}).refusal, "") << layout;
      const OpCase gradient{
          "gradient", {Type({2, 20, 4, 4})}, With(op_case.attributes, {{"input_shape", Ints{2, 20, 7, 7}}})};
      const bool is_channels_last = std::string_view(layout) == "acdb";
      const std::string refusal = CheckProposal("onednn", "pool_average_backward", gradient, {{layout}, {}}).refusal;
      EXPECT_EQ(refusal.empty(), !is_channels_last) << layout << ": " << refusal;
    }
  }
  const OpCase mixed{"mixed", {Type({2, 20, 7, 7})}, counted(1, 0)};
  EXPECT_EQ(CheckProposal("onednn", "pool_average", mixed, {}).refusal,
            "oneDNN divides by all positions of the window or by those inside the input, this op by others");
}

TEST(OnednnLrn, ForwardAndGradientMatchTheReference) {
  for (const char* layout : kLayouts) {
    for (const int64_t channels : {3, 20, 32}) {
      const TensorType x = Type({1, channels, 2, 3});
      const OpCase across{"across", {x}, LrnCase(5, "across")};
      EXPECT_EQ(CheckProposal("onednn", "lrn", across, {{layout}, {}}).refusal, "") << layout << channels;
      const OpCase gradient{"gradient", {x, x}, LrnCase(5, "across")};
      EXPECT_EQ(CheckProposal("onednn", "lrn_backward", gradient, {{layout}, {}}).refusal, "") << layout << channels;
      const OpCase within{"within", {x}, LrnCase(3, "within")};
      EXPECT_EQ(CheckProposal("onednn", "lrn", within, {{layout}, {}}).refusal, "") << layout << channels;
    }
  }
}

OpCase BatchNormCase(Shape x, bool affine, bool relu, bool sum = false) {
  const TensorType channels{DType::kFloat32, Shape{x[1]}, {}};
  const TensorType image{DType::kFloat32, x, {}};
  OpCase c{"norm", {image}, {{"eps", 1e-5}, {"relu", relu}, {"sum", sum}}};
  if (affine) c.inputs.insert(c.inputs.end(), 2, channels);
  if (sum) c.inputs.push_back(image);
  return c;
}

struct NormGradient {
  std::string mask;
  int64_t gradients = 1;
  bool residual = false;
};

OpCase BatchNormBackwardCase(Shape x, bool affine, const NormGradient& g) {
  const TensorType image{DType::kFloat32, x, {}};
  const TensorType channels{DType::kFloat32, Shape{x[1]}, {}};
  OpCase c{"norm",
           {image, channels, channels},
           {{"eps", 1e-5}, {"affine", affine}, {"mask", g.mask}, {"gradients", g.gradients}, {"residual", g.residual}}};
  c.ranges = {{2, 0.1, 2}};
  c.inputs.insert(c.inputs.end(), static_cast<size_t>(g.gradients), image);
  if (affine) c.inputs.push_back(channels);
  if (affine && g.mask == "input") c.inputs.push_back(channels);
  if (g.mask == "output") c.inputs.push_back(image);
  return c;
}

TEST(BatchNorm, OwnKernelMatchesTheReferenceInEveryLayout) {
  const NormGradient gradients[] = {{"", 1, false},      {"input", 1, false}, {"output", 1, true},
                                    {"output", 2, true}, {"", 3, true},       {"input", 2, false}};
  for (const char* layout : kLayouts) {
    for (const int64_t channels : {1, 3, 8, 16, 20, 33, 128}) {
      for (const bool affine : {false, true}) {
        const Shape x{3, channels, 5, 7};
        for (const auto& [relu, sum] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
          const OpCase forward = BatchNormCase(x, affine, relu, sum);
          EXPECT_EQ(CheckProposal("moka", "batch_norm", forward, {{layout}, {}}).refusal, "");
        }
        for (const NormGradient& gradient : gradients) {
          const OpCase backward = BatchNormBackwardCase(x, affine, gradient);
          EXPECT_EQ(CheckProposal("moka", "batch_norm_backward", backward, {{layout}, {}}).refusal, "");
        }
      }
    }
  }
}

// Forward and backward, y at every stride-th row and column.
TEST(BatchNorm, StridesInEveryLayout) {
  const Shape x{3, 20, 9, 7};
  for (const Ints& stride : {Ints{2, 2}, Ints{1, 2}, Ints{3, 1}, Ints{10, 4}}) {
    const auto sampled = [&](OpCase c, std::initializer_list<size_t> small) {
      c.attributes.Set("stride", stride);
      const Shape y = x.With(2, (x[2] + stride[0] - 1) / stride[0]).With(3, (x[3] + stride[1] - 1) / stride[1]);
      for (const size_t i : small) c.inputs[i].shape = y;
      return c;
    };
    for (const char* layout : kLayouts) {
      const OpCase forward = sampled(BatchNormCase(x, true, true, true), {});
      EXPECT_EQ(CheckProposal("moka", "batch_norm", forward, {{layout}, {}}).refusal, "") << layout;
      const OpCase backward = sampled(BatchNormBackwardCase(x, true, {"output", 2, true}), {3, 4, 6});
      EXPECT_EQ(CheckProposal("moka", "batch_norm_backward", backward, {{layout}, {}}).refusal, "") << layout;
    }
  }
}

// Groups too large for the caches all at once: threads sweep some together, then the next.
TEST(BatchNorm, LargeGroups) {
  for (const auto& [layout, x] : {std::pair{"abcd", Shape{2, 5, 230, 260}}, {"aBcd16b", Shape{2, 17, 130, 160}}}) {
    CheckProposal("moka", "batch_norm", BatchNormCase(x, true, true, true), {{layout}, {}});
    CheckProposal("moka", "batch_norm_backward", BatchNormBackwardCase(x, true, {"output", 2, true}), {{layout}, {}});
  }
}

TEST(BatchNorm, RanksTwoThreeAndFive) {
  for (const Shape& x : {Shape{9, 19}, Shape{2, 5, 21}, Shape{2, 6, 2, 3, 4}}) {
    EXPECT_EQ(CheckProposal("moka", "batch_norm", BatchNormCase(x, true, true), {}).refusal, "") << x.ToString();
    EXPECT_EQ(CheckProposal("moka", "batch_norm_backward", BatchNormBackwardCase(x, true, {"input"}), {}).refusal, "");
  }
}

// A mean a thousand deviations away: sums of squares in float would lose the variance.
TEST(BatchNorm, LargeMeansKeepTheVariance) {
  OpCase op_case = BatchNormCase(Shape{4, 16, 8, 8}, false, false);
  op_case.low = 999;
  op_case.high = 1001;
  op_case.tolerance = 1e-4;  // the input itself is rounded to 6e-5 of a deviation
  for (const char* layout : kLayouts) CheckProposal("moka", "batch_norm", op_case, {{layout}, {}});
}

TEST(OnednnSoftmax, EveryAxisForwardAndBackward) {
  for (const int64_t axis : {0, 1, 2, 3, -1}) {
    for (const char* layout : kLayouts) {
      const OpCase forward{"softmax", {Type({3, 19, 4, 5})}, {{"axis", axis}}};
      const OpCase backward{"softmax", {Type({3, 19, 4, 5}), Type({3, 19, 4, 5})}, {{"axis", axis}}};
      EXPECT_EQ(CheckProposal("onednn", "softmax", forward, {{layout}, {}}).refusal, "") << axis << layout;
      EXPECT_EQ(CheckProposal("onednn", "softmax_backward", backward, {{layout, layout}, {}}).refusal, "");
    }
  }
}

TEST(OnednnReorder, AnyPairOfLayouts) {
  constexpr const char* kNames[] = {"abcd",       "acdb",     "aBcd16b", "aBcd8b",
                                    "ABcd16b16a", "ABcd8b8a", "Acdb16a", "Abcd16a"};
  for (const char* from : kNames) {
    for (const char* to : kNames) {
      const OpCase op_case{"reorder", {Type({19, 35, 3, 2})}, {{"layout", std::string(to)}}};
      EXPECT_EQ(CheckKernel("onednn", "reorder", op_case, {{from}, {to}}).refusal, "") << from << " to " << to;
      EXPECT_EQ(CheckProposal("onednn", "reorder", op_case, {{from}, {}}).outputs[0].layout, Layout::Parse(to));
    }
  }
}

// Moka's own takes what oneDNN 3 has no name for, panels of matrix products among them.
TEST(MokaReorder, AnyPairOfLayouts) {
  constexpr const char* kNames[] = {"ab", "ba", "Ab48a", "Ba48b", "Ab16a", "BA16a32b2a"};
  for (const char* from : kNames) {
    for (const char* to : kNames) {
      const OpCase op_case{"reorder", {Type({50, 35})}, {{"layout", std::string(to)}}};
      EXPECT_EQ(CheckKernel("moka", "reorder", op_case, {{from}, {to}}).refusal, "") << from << " to " << to;
      EXPECT_EQ(CheckProposal("moka", "reorder", op_case, {{from}, {}}).outputs[0].layout, Layout::Parse(to));
    }
  }
}

TEST(OnednnConcat, WholeBlocksStayBlockedOthersBecomePlain) {
  const Attributes channels{{"axis", int64_t{1}}};
  const OpCase whole{"whole", {Type({2, 32, 3, 3}), Type({2, 16, 3, 3}), Type({2, 48, 3, 3})}, channels};
  const Checked blocked = CheckProposal("onednn", "concat", whole, {{"aBcd16b", "aBcd16b", ""}, {}});
  EXPECT_EQ(blocked.refusal, "");
  const Checked last = CheckProposal("onednn", "concat", whole, {{"acdb", "acdb", "acdb"}, {}});
  EXPECT_EQ(last.refusal, "");
  const OpCase odd{"odd", {Type({2, 20, 3, 3}), Type({2, 5, 3, 3})}, channels};
  const Checked plain = CheckProposal("onednn", "concat", odd, {{"aBcd16b", "aBcd16b"}, {}});
  EXPECT_EQ(plain.refusal, "");
  EXPECT_TRUE(plain.outputs[0].layout.is_plain());
}

TEST(OnednnTypes, Int64IsRefused) {
  const OpCase op_case{"reorder", {{DType::kInt64, Shape{4}, {}}}, {{"layout", std::string("a")}}};
  EXPECT_EQ(CheckKernel("onednn", "reorder", op_case, {}).refusal, "oneDNN has no int64");
}

}  // namespace
}  // namespace moka
