// Layers that move, crop, reorder or select, and the small ones beside them: what the goldens do not cover, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "one_layer.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

TEST(ShapeTest, CropMistakes) {
  EXPECT_THAT(ErrorOf({{1, 2, 5, 5}, {1, 2, 6, 3}}, "Crop"),
              HasSubstr("axis 2 of \"a\" [1,2,5,5] has no 6 elements from 0 on"));
  EXPECT_THAT(ErrorOf({{1, 2, 5, 5}, {1, 2, 3, 3}}, "Crop", "crop_param { offset: 1 offset: 3 }"),
              HasSubstr("axis 3 of \"a\" [1,2,5,5] has no 3 elements from 3 on"));
  EXPECT_THAT(ErrorOf({{1, 2, 5, 5}, {1, 2, 3, 3}}, "Crop", "crop_param { axis: 1 offset: 1 offset: 3 }"),
              HasSubstr("crop_param.offset is given 2 times for the 3 axes from 1 on"));
  EXPECT_THAT(ErrorOf({{1, 2, 5, 5}, {3, 3}}, "Crop"), HasSubstr("\"b\" [3,3] must have the 4 axes of \"a\""));
  EXPECT_THAT(ErrorOf({{1, 2}, {1, 2}}, "Crop"), HasSubstr("crop_param.axis is 2 but the bottom [1,2] has 2 axes"));
  EXPECT_THAT(ErrorOf({{1, 1, 5, 5}, {1, 1, 3, 3}}, "Crop", "crop_param { offset: 4294967295 }"),
              HasSubstr("has no 3 elements from 4294967295 on"));
}

TEST(ShapeTest, FilterKeepsTheBatchAndPutsPaddingLast) {
  const BuiltNet net = BuildText(Layer({{4, 2}, {4}}, "Filter", ""));
  EXPECT_THAT(TopValues(net, {{"a", {1, 2, 3, 4, 5, 6, 7, 8}}, {"b", {0, 3, 0, -1}}}, "y"),
              ElementsAre(3, 4, 7, 8, 0, 0, 0, 0));
  EXPECT_THAT(ErrorOf({{4, 2}, {4, 2}}, "Filter"), HasSubstr("must have one value an item, found [4,2]"));
  EXPECT_THAT(ErrorOf({{3, 2}, {4}}, "Filter"), HasSubstr("\"a\" [3,2] must have the selector's 4 items"));
  EXPECT_THAT(ErrorOf({{4}, {4}, {4}}, "Filter"), HasSubstr("a top for each bottom but the selector, found 3 bottoms"));
}

TEST(ShapeTest, BatchReindexMistakes) {
  EXPECT_THAT(ErrorOf({{4, 2}, {3, 1}}, "BatchReindex"), HasSubstr("the index \"b\" must have one axis, found [3,1]"));
}

TEST(ShapeTest, ReorderingMistakes) {
  EXPECT_THAT(ErrorOf({{2, 3}}, "Permute", "permute_param { order: 2 }"),
              HasSubstr("names axis 2 but the bottom [2,3] has 2 axes"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Permute", "permute_param { order: 1 order: 1 }"), HasSubstr("names axis 1 twice"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "ShuffleChannel", "shuffle_channel_param { group: 2 }"),
              HasSubstr("group must divide the 3 channels of the bottom [2,3], found 2"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "ShuffleChannel", "shuffle_channel_param { group: 0 }"), HasSubstr("found 0"));
  EXPECT_THAT(ErrorOf({{2, 3, 4}}, "Flip"), HasSubstr("must be [N,C,H,W], found [2,3,4]"));
}

TEST(ShapeTest, Im2colShapesAndMistakes) {
  const std::string kernel = "convolution_param { kernel_h: 3 kernel_w: 2 stride: 2 }";
  EXPECT_EQ(ShapeOf({{2, 4, 9, 7}}, "Im2col", kernel), (Shape{2, 24, 4, 3}));
  EXPECT_THAT(ErrorOf({{2, 4, 9, 7}}, "Im2col"), HasSubstr("kernel_size (or its _h and _w fields) must be given"));
  EXPECT_THAT(ErrorOf({{2, 4, 3, 3}}, "Im2col", "convolution_param { kernel_size: 5 }"), HasSubstr("window covers 5"));
  EXPECT_EQ(ShapeOf({{2, 4, 3, 5}}, "Im2col", "convolution_param { kernel_size: 2 axis: 2 }"), (Shape{2, 4, 6, 4}));
  EXPECT_THAT(ErrorOf({{2, 4, 3, 3}}, "Im2col", "convolution_param { kernel_size: 1 axis: 4 }"),
              HasSubstr("axis 4 does not exist in the bottom [2,4,3,3]"));
}

TEST(ShapeTest, Im2colKeepsWhatIsNotFiniteInItsPlaces) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string net = InputText("x0", {1, 1, 1, 4}) +
                          "layer { name: \"l\" type: \"Im2col\" bottom: \"x0\" top: \"y0\" "
                          "convolution_param { kernel_h: 1 kernel_w: 2 } }";
  const std::vector<double> y = TopValues(BuildText(net), {{"x0", {1, nan, 3, 4}}}, "y0");
  EXPECT_THAT(y, ElementsAre(1, IsNan(), 3, IsNan(), 3, 4));
}

TEST(ShapeTest, PyramidShapesAndMistakes) {
  EXPECT_EQ(ShapeOf({{2, 3, 13, 13}}, "SPP", "spp_param { pyramid_height: 3 }"), (Shape{2, 63}));
  EXPECT_EQ(ShapeOf({{2, 3, 13, 9}}, "SPP", "spp_param { pyramid_height: 1 }"), (Shape{2, 3, 1, 1}));
  EXPECT_THAT(ErrorOf({{2, 3, 13, 13}}, "SPP"), HasSubstr("pyramid_height must be at least 1"));
  EXPECT_THAT(ErrorOf({{2, 3, 3, 3}}, "SPP", "spp_param { pyramid_height: 4000000000 }"),
              HasSubstr("a level of 4 bins a side pools windows of 1 with a pad of 1 along axis 2"));
  EXPECT_THAT(ErrorOf({{2, 3, 3, 3}}, "SPP", "spp_param { pyramid_height: 2 pool: STOCHASTIC }"),
              HasSubstr("2 bins a side do not divide the bottom [2,3,3,3]"));
  EXPECT_EQ(ErrorOf({{2, 3, 4, 4}}, "SPP", "spp_param { pyramid_height: 2 pool: STOCHASTIC }"), "built");
}

// 500 windows of 1, 3, 0, 0.
std::vector<double> Windows() {
  std::vector<double> x;
  for (const double row : {0, 1}) {
    for (int i = 0; i < 500; ++i) {
      x.push_back(row == 0 ? 1 : 0);
      x.push_back(row == 0 ? 3 : 0);
    }
  }
  return x;
}

TEST(ShapeTest, StochasticPoolingDrawsByValue) {
  const std::string text =
      Layer({{1, 1, 2, 1000}}, "Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }");
  const BuiltNet net = BuildText(text);
  const auto drawn = [&](double key) { return TopValues(net, {{"a", Windows()}, {"random_key", {key}}}, "y"); };
  const std::vector<double> y = drawn(5);
  EXPECT_EQ(y.size(), 500U);
  EXPECT_EQ(std::set<double>(y.begin(), y.end()), (std::set<double>{1, 3}));
  EXPECT_NEAR(static_cast<double>(std::ranges::count(y, 3.0)), 375, 50);
  EXPECT_EQ(drawn(5), y);
  EXPECT_NE(drawn(6), y);
  const std::vector<double> zeros = TopValues(net, {{"a", std::vector<double>(2000, 0.0)}, {"random_key", {5}}}, "y");
  EXPECT_EQ(std::ranges::count(zeros, 0.0), 500);
}

TEST(ShapeTest, SpatialDropoutDropsWholeChannels) {
  for (const std::string field :
       {"dropout_param { dropout_ratio: 0.25 }", "spatial_dropout_param { dropout_ratio: 0.25 }"}) {
    const BuiltNet net = BuildText(Layer({{20, 25, 2, 2}}, "SpatialDropout", field));
    const std::vector<double> y = TopValues(net, {{"a", std::vector<double>(2000, 3.0)}, {"random_key", {7}}}, "y");
    int dropped = 0;
    for (size_t i = 0; i < y.size(); i += 4) {
      EXPECT_TRUE(y[i] == 0 || std::abs(y[i] - 4) < 1e-6) << y[i];
      EXPECT_EQ(
          std::count(y.begin() + static_cast<std::ptrdiff_t>(i), y.begin() + static_cast<std::ptrdiff_t>(i + 4), y[i]),
          4);
      dropped += y[i] == 0 ? 1 : 0;
    }
    EXPECT_NEAR(dropped, 125, 45);
  }
  EXPECT_THAT(ErrorOf({{2, 3}}, "SpatialDropout", "spatial_dropout_param { dropout_ratio: 1 }"),
              HasSubstr("spatial_dropout_param.dropout_ratio must be in [0, 1), found 1"));
}

TEST(ShapeTest, DropoutDialects) {
  const auto values = [](const std::string& fields, Phase phase) {
    const BuiltNet net =
        BuildText(Layer({{400}}, "Dropout", "dropout_param { dropout_ratio: 0.25 " + fields + " }"), phase);
    const std::vector<double> y = TopValues(net, {{"a", std::vector<double>(400, 3.0)}, {"random_key", {7}}}, "y");
    return std::set<double>(y.begin(), y.end());
  };
  EXPECT_EQ(values("scale_train: false", TRAIN), (std::set<double>{0, 3}));
  EXPECT_EQ(values("scale_train: false", TEST), (std::set<double>{2.25}));
  EXPECT_EQ(values("sample_weights_test: true", TEST), values("", TRAIN));
  EXPECT_EQ(values("sample_weights_test: true", TEST).size(), 2U);
  EXPECT_EQ(values("", TEST), (std::set<double>{3}));
}

TEST(ShapeTest, NormalizationMistakes) {
  EXPECT_THAT(ErrorOf({{3}}, "MVN"), HasSubstr("the bottom must be [N,C,..], found [3]"));
  EXPECT_THAT(ErrorOf({{3}}, "Normalize"), HasSubstr("the bottom must be [N,C,..], found [3]"));
  EXPECT_THAT(ErrorOf({{3, 2}}, "Normalize", "norm_param { eps: -1 }"),
              HasSubstr("eps must not be negative, found -1"));
  EXPECT_THAT(ErrorOf({{2, 3, 2, 1}, {2, 3, 2, 2}, {2, 3, 2, 2}}, "Axpy"),
              HasSubstr("\"a\" [2,3,2,1] must have one number an item and channel of \"b\" [2,3,2,2]"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 3, 2, 2}, {2, 3, 2, 1}}, "Axpy"), HasSubstr("must have one shape"));
  const BuiltNet net = BuildText(Layer({{1, 2, 3, 3}}, "Normalize", "norm_param { channel_shared: false }"));
  ASSERT_EQ(net.blobs.size(), 1U);
  EXPECT_EQ(net.blobs[0].filler.value(), 1);
}

}  // namespace
}  // namespace moka
