// LayerNorm, GELU, Positions and the masks of Softmax: mistakes and shapes (tests/golden/layers_attention.json has
// values and gradients).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/text.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::HasSubstr;

TEST(AttentionLayerTest, MistakesOfLayerNorm) {
  const auto fault = [](const std::string& fields) {
    return ErrorsOf(Layer({{2, 3}}, "LayerNorm", StrCat("layer_norm_param { ", fields, " }")));
  };
  EXPECT_THAT(fault("eps: 0"), HasSubstr("layer_norm_param.eps must be above 0, found 0"));
  EXPECT_THAT(fault("eps: -1"), HasSubstr("layer_norm_param.eps must be above 0, found -1"));
  EXPECT_THAT(fault("eps: nan"), HasSubstr("layer_norm_param.eps"));
  EXPECT_THAT(fault("axis: 2"), HasSubstr("layer_norm_param.axis"));
  EXPECT_THAT(fault("axis: -3"), HasSubstr("layer_norm_param.axis"));
}

TEST(AttentionLayerTest, MistakesOfMasks) {
  const auto fault = [](const std::vector<int64_t>& mask, const std::string& fields = "axis: 2") {
    return ErrorsOf(Layer({{2, 3, 4}, mask}, "Softmax", StrCat("softmax_param { ", fields, " }")));
  };
  EXPECT_THAT(fault({2, 3, 5}), HasSubstr("the mask [2,3,5] must have the axes of [2,3,4], each as large or 1"));
  EXPECT_THAT(fault({3, 4}), HasSubstr("the mask [3,4] must have the axes of [2,3,4], each as large or 1"));
  EXPECT_EQ(fault({2, 1, 4}), "built");
  EXPECT_EQ(fault({1, 1, 1}), "built");
  EXPECT_THAT(
      fault({1, 1, 1}, "axis: 1 causal: true"),
      HasSubstr("causal is along the last axis, one row for each index of the one before; axis is 1 of [2,3,4]"));
  EXPECT_THAT(ErrorsOf(Layer({{4}}, "Softmax", "softmax_param { axis: 0 causal: true }")),
              HasSubstr("axis is 0 of [4]"));
}

TEST(AttentionLayerTest, MistakesOfPositionsAndScales) {
  EXPECT_THAT(ErrorsOf(Layer({{2, 3}}, "Positions", "positions_param { axis: 2 }")), HasSubstr("positions_param.axis"));
  EXPECT_THAT(ErrorsOf(Layer({{2, 3}, {3, 2}}, "MatMul", "matmul_param { scale: inf }")),
              HasSubstr("matmul_param.scale"));
}

TEST(AttentionLayerTest, BlobsOfLayerNormHaveTheShapeOfItsAxes) {
  const BuiltNet net = BuildText(Layer({{5, 2, 3, 4}}, "LayerNorm", "layer_norm_param { axis: 2 }"));
  ASSERT_EQ(net.blobs.size(), 2U);
  for (const NetBlob& blob : net.blobs) EXPECT_EQ(blob.shape, (Shape{3, 4}));
  EXPECT_EQ(net.blobs[0].filler.value(), 1);
  EXPECT_EQ(net.blobs[1].filler.value(), 0);
  EXPECT_TRUE(BuildText(Layer({{5, 2}}, "LayerNorm", "layer_norm_param { affine: false }")).blobs.empty());
}

// A mask hides an element whatever the element holds.
TEST(AttentionLayerTest, HiddenScoresHaveNoPart) {
  const BuiltNet net = BuildText(Layer({{1, 3}, {1, 3}}, "Softmax", "softmax_param { axis: 1 }"));
  for (const double hidden : {0.0, 1e4, -1e4, 3e38}) {
    const std::vector<double> y = TopValues(net, {{"a", {1, hidden, 2}}, {"b", {1, 0, 5}}}, "y");
    EXPECT_NEAR(y[0], 1 / (1 + std::exp(1.0)), 1e-12) << hidden;
    EXPECT_EQ(y[1], 0) << hidden;
    EXPECT_NEAR(y[2], 1 / (1 + std::exp(-1.0)), 1e-12) << hidden;
  }
}

}  // namespace
}  // namespace moka
