// Layers that the goldens do not cover, and the errors of single layers with their places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "one_layer.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LayerTypesTest, PoolingSizesFollowCaffe) {
  const auto pooled = [](int64_t size, const std::string& fields) {
    return ShapeOf({{1, 1, size, size}}, "Pooling", "pooling_param { " + fields + " }")[2];
  };
  EXPECT_EQ(pooled(8, "kernel_size: 3 stride: 2"), 4);  // rounded up
  EXPECT_EQ(pooled(8, "kernel_size: 3 stride: 2 round_mode: FLOOR"), 3);
  EXPECT_EQ(pooled(112, "kernel_size: 3 stride: 2 pad: 1"), 57);  // (112+2-3)/2 = 55.5, up, and 56*2 < 113
  EXPECT_EQ(pooled(5, "kernel_size: 2 stride: 2 pad: 1"), 3);     // a fourth would begin at 6 >= 5+1
  EXPECT_EQ(pooled(6, "global_pooling: true"), 1);
  EXPECT_EQ(pooled(6, "pool: AVE kernel_size: 7 stride: 2"), 1);  // larger than the image, rounded up
}

TEST(LayerTypesTest, PoolingOverhangIsLeftOutOfTheAverage) {
  const BuiltNet net = BuildText(Layer({{1, 1, 1, 3}}, "Pooling",
                                       "pooling_param { pool: AVE kernel_h: 1 kernel_w: 2 "
                                       "stride: 2 }"));
  EXPECT_THAT(TopValues(net, {{"a", {1, 3, 8}}}, "y"), ElementsAre(2, 8));
}

TEST(LayerTypesTest, StochasticPoolingTestsByTheWeightedMean) {
  const BuiltNet net =
      BuildText(Layer({{1, 1, 2, 4}}, "Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }"), TEST);
  EXPECT_THAT(TopValues(net, {{"a", {1, 3, 0, 0, 0, 0, 0, 0}}}, "y"), ElementsAre(10 / 4.0, 0));
}

TEST(LayerTypesTest, ConvolutionShapes) {
  const auto shape = [](const std::string& fields) {
    return ShapeOf({{2, 4, 9, 7}}, "Convolution", "convolution_param { num_output: 6 " + fields + " }");
  };
  EXPECT_EQ(shape("kernel_size: 3"), (Shape{2, 6, 7, 5}));
  EXPECT_EQ(shape("kernel_size: 3 pad: 1 stride: 2 group: 2"), (Shape{2, 6, 5, 4}));
  EXPECT_EQ(shape("kernel_h: 1 kernel_w: 5 pad_w: 2 stride_h: 3 stride_w: 1"), (Shape{2, 6, 3, 7}));
  EXPECT_EQ(shape("kernel_size: 3 dilation: 2 dilation: 1"), (Shape{2, 6, 5, 5}));
  EXPECT_EQ(ShapeOf({{1, 2, 5}}, "Convolution", "convolution_param { num_output: 3 kernel_size: 2 }"),
            (Shape{1, 3, 4}));
  EXPECT_EQ(ShapeOf({{1, 2, 4, 5, 6}}, "Convolution", "convolution_param { num_output: 3 kernel_size: 2 }"),
            (Shape{1, 3, 3, 4, 5}));
  EXPECT_EQ(shape("kernel_size: 3 axis: 2"), (Shape{2, 4, 6, 5}));
  EXPECT_EQ(ShapeOf({{3, 9, 7}}, "Convolution", "convolution_param { num_output: 6 kernel_size: 3 axis: 0 }"),
            (Shape{6, 7, 5}));
  EXPECT_EQ(ShapeOf({{2, 3, 4, 5}}, "Deconvolution", "convolution_param { num_output: 6 kernel_size: 3 axis: -2 }"),
            (Shape{2, 3, 6, 7}));
}

TEST(LayerTypesTest, ConvolutionsOfSeveralBottomsShareTheirWeights) {
  const BuiltNet net = BuildText(InputText("a", {1, 1, 4, 4}) + InputText("b", {1, 1, 4, 4}) + R"(
    layer { name: "c" type: "Convolution" bottom: "a" bottom: "b" top: "ca" top: "cb"
      convolution_param { num_output: 2 kernel_size: 3 } })");
  EXPECT_EQ(net.blobs.size(), 2U);
  EXPECT_EQ(OpsOf(net, "c"), "convolution convolution");
}

TEST(LayerTypesTest, ConvolutionMistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{1, 4, 5, 5}}, "Convolution", "convolution_param { " + fields + " }");
  };
  EXPECT_EQ(
      error("num_output: 2 kernel_size: 3 kernel_h: 3 kernel_w: 3"),
      "net.prototxt:2:109: layer \"l\": both convolution_param.kernel_size and its _h or _w spelling are given; give "
      "one of them");
  EXPECT_THAT(error("num_output: 2 kernel_h: 3"), HasSubstr("both the _h and the _w field are needed"));
  EXPECT_THAT(error("num_output: 2"),
              HasSubstr("convolution_param.kernel_size (or its _h and _w fields) must be given"));
  EXPECT_THAT(error("num_output: 2 kernel_size: 0"), HasSubstr("kernel_size must be at least 1, found 0"));
  EXPECT_THAT(error("kernel_size: 3"), HasSubstr("num_output must be given and at least 1"));
  EXPECT_THAT(error("num_output: 2 kernel_size: 3 stride: 0"), HasSubstr("stride must be at least 1, found 0"));
  EXPECT_THAT(error("num_output: 2 kernel_size: 6"),
              HasSubstr("the kernel covers 6 of spatial axis 0 but the bottom [1,4,5,5] has 5 there and the pad is 0"));
  EXPECT_THAT(error("num_output: 2 kernel_size: 3 group: 3"),
              HasSubstr("the bottom's 4 channels [1,4,5,5] do not divide into 3 groups"));
  EXPECT_THAT(error("num_output: 3 kernel_size: 3 group: 2"), HasSubstr("num_output 3 does not divide into 2 groups"));
  EXPECT_THAT(error("num_output: 2 kernel_size: 3 axis: 4"),
              HasSubstr("axis 4 does not exist in the bottom [1,4,5,5]"));
  EXPECT_THAT(error("num_output: 2 kernel_size: 3 axis: 3"), HasSubstr("1 to 3 spatial axes, found [20,5]"));
  EXPECT_THAT(error("num_output: 2 kernel_size: 3 kernel_size: 3 kernel_size: 3"),
              HasSubstr("is given 3 times for 2 spatial axes"));
  EXPECT_THAT(ErrorOf({{1, 4, 3, 3}}, "Deconvolution", "convolution_param { num_output: 1 kernel_size: 1 pad: 2 }"),
              HasSubstr("spatial axis 0 would have -1 outputs: stride 1 * (3 - 1) + 1 - 2 * pad 2"));
}

TEST(LayerTypesTest, PoolingMistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{1, 4, 5, 5}}, "Pooling", "pooling_param { " + fields + " }");
  };
  EXPECT_THAT(error("pool: MAX"), HasSubstr("pooling_param.kernel_size (or kernel_h and kernel_w) must be given"));
  EXPECT_THAT(error("kernel_size: 2 kernel_h: 2 kernel_w: 2"), HasSubstr("both pooling_param.kernel_size and its _h"));
  EXPECT_THAT(error("kernel_h: 2"), HasSubstr("both the _h and the _w field are needed"));
  EXPECT_THAT(error("kernel_size: 2 pad: 2"), HasSubstr("pooling_param.pad must be below the kernel's 2, found 2"));
  EXPECT_THAT(error("kernel_size: 2 global_pooling: true"), HasSubstr("kernel_size must not be given"));
  EXPECT_THAT(error("global_pooling: true stride: 2"), HasSubstr("global_pooling needs pad 0 and stride 1"));
  EXPECT_THAT(error("kernel_size: 2 stride: 6"),
              HasSubstr("the last window would begin at 6 of spatial axis 0, outside the bottom [1,4,5,5]"));
  EXPECT_THAT(error("kernel_size: 9 round_mode: FLOOR"), HasSubstr("the kernel 9 is larger than spatial axis 0"));
  EXPECT_THAT(ErrorsOf(InputText("x", {1, 4, 5, 5}) + "layer { name: \"l\" type: \"Pooling\" bottom: \"x\" top: \"y\" "
                                                      "top: \"m\" pooling_param { pool: AVE kernel_size: 2 } }"),
              HasSubstr("only MAX pooling has a second top, the mask"));
}

TEST(LayerTypesTest, DropoutKeepsAndScalesInTraining) {
  const std::string text = Layer({{1000}}, "Dropout", "dropout_param { dropout_ratio: 0.25 }");
  const BuiltNet net = BuildText(text);
  const Feeds feeds{{"a", std::vector<double>(1000, 3.0)}, {"random_key", {7}}};
  const std::vector<double> y = TopValues(net, feeds, "y");
  for (const double value : y) EXPECT_TRUE(value == 0 || std::abs(value - 4) < 1e-6) << value;
  EXPECT_NEAR(static_cast<double>(std::ranges::count(y, 0.0)), 250, 60);
  EXPECT_EQ(TopValues(net, feeds, "y"), y);
  EXPECT_NE(TopValues(net, {{"a", std::vector<double>(1000, 3.0)}, {"random_key", {8}}}, "y"), y);
  EXPECT_EQ(OpsOf(BuildText(text, TEST), "l"), "");
  EXPECT_THAT(ErrorOf({{2}}, "Dropout", "dropout_param { dropout_ratio: 1.5 }"),
              HasSubstr("must be in [0, 1], found 1.5"));
}

TEST(LayerTypesTest, BatchNormSharedByTwoLayersUpdatesItsStatisticsTwice) {
  const BuiltNet net = BuildText(InputText("a", {2, 1}) + InputText("b", {2, 1}) + R"(
    layer { name: "m" type: "BatchNorm" bottom: "a" top: "ya" param { name: "m" } param { name: "v" } param { name: "f" }
      batch_norm_param { moving_average_fraction: 0.5 } }
    layer { name: "n" type: "BatchNorm" bottom: "b" top: "yb" param { name: "m" } param { name: "v" } param { name: "f" }
      batch_norm_param { moving_average_fraction: 0.5 } })");
  ASSERT_EQ(net.graph.assignments().size(), 3U);
  const Assignment& mean = net.graph.assignments()[0];
  const auto values = Evaluate(net.graph, {{"a", {1, 3}}, {"b", {5, 7}}, {"m", {8}}}, {mean.value});
  EXPECT_DOUBLE_EQ(values[0].values[0], (8 * 0.5 + 2) * 0.5 + 6);
}

TEST(LayerTypesTest, BatchNormStatisticsAreNotTrained) {
  const BuiltNet net = BuildText(Layer({{2, 3, 2, 2}}, "BatchNorm", ""));
  ASSERT_EQ(net.blobs.size(), 3U);
  for (const NetBlob& blob : net.blobs) {
    EXPECT_EQ(blob.role, ParameterRole::kStatistic);
    EXPECT_EQ(blob.lr_mult, 0);
  }
  EXPECT_EQ(ErrorOf({{2, 3}}, "BatchNorm", "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 }"), "built");
  EXPECT_THAT(ErrorOf({{2, 3}}, "BatchNorm", "param { lr_mult: 1 }"),
              HasSubstr("net.prototxt:2:66: layer \"l\": the statistics of BatchNorm are not trained"));
}

TEST(LayerTypesTest, ReductionKinds) {
  const auto reduced = [](const std::string& fields) {
    return TopValues(BuildText(Layer({{2, 3}}, "Reduction", "reduction_param { " + fields + " }")),
                     {{"a", {1, -2, 3, 4, 5, -6}}}, "y");
  };
  EXPECT_THAT(reduced(""), ElementsAre(5));
  EXPECT_THAT(reduced("axis: 1"), ElementsAre(2, 3));
  EXPECT_THAT(reduced("axis: -1 operation: ASUM coeff: 2"), ElementsAre(12, 30));
  EXPECT_THAT(reduced("axis: 1 operation: SUMSQ"), ElementsAre(14, 77));
  EXPECT_THAT(reduced("operation: MEAN"), ElementsAre(testing::DoubleNear(5 / 6.0, 1e-12)));
}

TEST(LayerTypesTest, TileRepeats) {
  const BuiltNet net = BuildText(Layer({{2, 2}}, "Tile", "tile_param { tiles: 2 }"));
  EXPECT_EQ(net.graph.shape(net.tops.at("y")), (Shape{2, 4}));
  EXPECT_THAT(TopValues(net, {{"a", {1, 2, 3, 4}}}, "y"), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
}

TEST(LayerTypesTest, EltwiseMaximumOfThree) {
  const BuiltNet net = BuildText(InputText("a", {3}) + InputText("b", {3}) + InputText("c", {3}) + R"(
    layer { name: "l" type: "Eltwise" bottom: "a" bottom: "b" bottom: "c" top: "y" eltwise_param { operation: MAX } })");
  EXPECT_THAT(TopValues(net, {{"a", {1, 5, 2}}, {"b", {4, 1, 2}}, {"c", {3, 3, 6}}}, "y"), ElementsAre(4, 5, 6));
}

TEST(LayerTypesTest, EltwiseTakesBottomsThatDifferByOnesAtTheEnd) {
  const BuiltNet net = BuildText(InputText("a", {2, 2}) + InputText("b", {2, 2, 1, 1}) + R"(
    layer { name: "l" type: "Eltwise" bottom: "a" bottom: "b" top: "y" eltwise_param { operation: PROD } })");
  EXPECT_EQ(net.graph.shape(net.tops.at("y")), (Shape{2, 2}));
  EXPECT_THAT(TopValues(net, {{"a", {1, 2, 3, 4}}, {"b", {5, 6, 7, 8}}}, "y"), ElementsAre(5, 12, 21, 32));
}

TEST(LayerTypesTest, ReluTellsWhereItIsOpen) {
  const BuiltNet net = BuildText(InputText("a", {3}) +
                                 "layer { name: 'l' type: 'ReLU' bottom: 'a' top: 'a' top: 'open' "
                                 "relu_param { negative_slope: 0.5 } }");
  EXPECT_THAT(TopValues(net, {{"a", {3, -4, 0}}}, "a"), ElementsAre(3, -2, 0));
  EXPECT_THAT(TopValues(net, {{"a", {3, -4, 0}}}, "open"), ElementsAre(1, 0, 0));
}

TEST(LayerTypesTest, EltwiseOfOneBottom) {
  for (const auto& [fields, factor] :
       {std::pair{"coeff: -2", -2.0}, std::pair{"operation: PROD", 1.0}, std::pair{"operation: MAX", 1.0}}) {
    const BuiltNet net = BuildText(InputText("a", {2}) + "layer { name: \"l\" type: \"Eltwise\" bottom: \"a\" top: " +
                                   "\"y\" eltwise_param { " + fields + " } }");
    EXPECT_THAT(TopValues(net, {{"a", {3, -4}}}, "y"), ElementsAre(3 * factor, -4 * factor)) << fields;
  }
}

TEST(LayerTypesTest, AxisMistakesNameFieldAndShape) {
  EXPECT_THAT(ErrorOf({{2, 3}}, "Softmax", "softmax_param { axis: 2 }"),
              HasSubstr("net.prototxt:2:72: layer \"l\": softmax_param.axis is 2 but the bottom [2,3] has 2 axes"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Concat", "concat_param { axis: 1 concat_dim: 1 }"),
              HasSubstr("both concat_param.axis and concat_param.concat_dim are given; give one"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Slice", "top: \"z\" slice_param { slice_dim: 1 }"),
              HasSubstr("axis 1 of the bottom [2,3] does not divide into 2 equal tops; give slice_point"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Slice", "top: \"z\" slice_param { slice_point: 3 }"),
              HasSubstr("part 1 would run from 3 to 3"));
  EXPECT_THAT(ErrorOf({{2, 3, 4}}, "Flatten", "flatten_param { axis: 2 end_axis: 1 }"),
              HasSubstr("flatten_param.end_axis 1 lies before axis 2"));
}

TEST(LayerTypesTest, ReshapeMistakes) {
  const auto error = [](const std::string& dims) {
    return ErrorOf({{2, 6}}, "Reshape", "reshape_param { shape { " + dims + " } }");
  };
  EXPECT_EQ(error("dim: 0 dim: 2 dim: -1"), "built");
  EXPECT_THAT(error("dim: -1 dim: -1"), HasSubstr("only one dim may be -1"));
  EXPECT_THAT(error("dim: 5"), HasSubstr("the new shape [5] has 5 elements but the bottom [2,6] has 12"));
  EXPECT_THAT(error("dim: 5 dim: -1"), HasSubstr("has 12 elements, which 5 (the dims given) does not divide"));
  EXPECT_THAT(error("dim: 2 dim: 6 dim: 0"), HasSubstr("dim 2 is 0 (copy) but the bottom [2,6] has no axis 2"));
  EXPECT_THAT(error("dim: -2"), HasSubstr("a dim must be at least 1, 0 (copy) or -1 (what remains), found -2"));
}

TEST(LayerTypesTest, BottomsThatDoNotFit) {
  const std::string inputs = InputText("a", {2, 3}) + InputText("b", {2, 4}) + InputText("label", {3});
  const auto error = [&](const std::string& layer) { return ErrorsOf(inputs + "layer { name: \"l\" " + layer + " }"); };
  EXPECT_THAT(error("type: \"Eltwise\" bottom: \"a\" bottom: \"b\" top: \"y\""),
              HasSubstr("all bottoms must have one shape, found \"a\" [2,3] and \"b\" [2,4]"));
  EXPECT_THAT(error("type: \"Concat\" bottom: \"a\" bottom: \"b\" top: \"y\" concat_param { axis: 0 }"),
              HasSubstr("bottoms \"a\" [2,3] and \"b\" [2,4] must agree but for axis 0"));
  EXPECT_THAT(
      error("type: \"SoftmaxWithLoss\" bottom: \"a\" bottom: \"label\" top: \"y\""),
      HasSubstr("bottom \"label\" [3] has 3 labels but bottom \"a\" [2,3] has 2 predictions (classes along axis 1)"));
  EXPECT_THAT(error("type: \"EuclideanLoss\" bottom: \"a\" bottom: \"b\" top: \"y\""),
              HasSubstr("must have one batch and one count"));
  EXPECT_THAT(error("type: \"Scale\" bottom: \"a\" bottom: \"label\" top: \"y\" scale_param { axis: 0 }"),
              HasSubstr("bottom \"label\" [3] must equal the dimensions of \"a\" [2,3] from axis 0 on"));
  EXPECT_THAT(error("type: \"Accuracy\" bottom: \"a\" bottom: \"label\" top: \"y\" accuracy_param { top_k: 4 }"),
              HasSubstr("accuracy_param.top_k must be from 1 to the 3 classes, found 4"));
}

TEST(LayerTypesTest, NumbersMustBeFinite) {
  EXPECT_THAT(ErrorOf({{2}}, "ReLU", "relu_param { negative_slope: nan }"),
              HasSubstr("relu_param.negative_slope must be a finite number, found nan"));
  EXPECT_THAT(ErrorOf({{2}}, "Power", "power_param { scale: inf }"),
              HasSubstr("power_param.scale must be a finite number"));
  EXPECT_THAT(ErrorOf({{2}}, "Exp", "exp_param { base: 0 }"),
              HasSubstr("exp_param.base must be positive, or -1 for e"));
  EXPECT_THAT(ErrorOf({{2}}, "Clip", "clip_param { min: 2 max: 1 }"), HasSubstr("clip_param.min 2 is above max 1"));
  EXPECT_THAT(ErrorOf({{1, 2, 3, 3}}, "LRN", "lrn_param { local_size: 4 }"), HasSubstr("must be odd, found 4"));
}

TEST(LayerTypesTest, DataLikeLayersTellTheirShapes) {
  const BuiltNet net = BuildText(R"(
    layer { name: "m" type: "MemoryData" top: "d" top: "l" memory_data_param { batch_size: 2 channels: 3 height: 4 width: 5 } }
    layer { name: "u" type: "DummyData" top: "u" top: "v" dummy_data_param { num: 2 channels: 1 channels: 3 height: 1
      width: 1 data_filler { type: "constant" } } })");
  EXPECT_EQ(net.graph.shape(net.tops.at("d")), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(net.graph.shape(net.tops.at("l")), (Shape{2}));
  EXPECT_EQ(net.graph.shape(net.tops.at("v")), (Shape{2, 3, 1, 1}));
  EXPECT_THAT(ErrorsOf("layer { name: \"m\" type: \"MemoryData\" top: \"d\" top: \"l\" }"),
              HasSubstr("must give batch_size, channels, height and width"));
  EXPECT_THAT(ErrorsOf("layer { name: \"u\" type: \"DummyData\" top: \"d\" dummy_data_param { shape { dim: 2 } "
                       "data_filler { type: \"bilinear\" } } }"),
              HasSubstr("bilinear filler: needs a square 2-D kernel"));
  EXPECT_THAT(ErrorsOf("layer { name: \"i\" type: \"Input\" top: \"d\" }"),
              HasSubstr("input_param.shape must be given"));
}

TEST(LayerTypesTest, LayersAreListedOnceAndSorted) {
  const std::vector<LayerDef>& layers = AllLayers();
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_NE(layers[i].build, nullptr) << layers[i].type;
    const std::string before = i == 0 ? "" : layers[i - 1].type;
    EXPECT_LT(before, layers[i].type);
  }
  EXPECT_EQ(FindLayer("convolution"), nullptr);
}

}  // namespace
}  // namespace moka
