// Layers and fields of Intel's, Synopsys's and BVLC's OpenCL forks, and of single authors: shapes, states and messages.
// Their values are in tests/golden/layers_vendor.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(VendorTest, FlattenedConcat) {
  EXPECT_EQ(ShapeOf({{2, 16, 38, 38}, {2, 24, 19, 19}}, "Concat", "concat_param { per_fla_fuse: true }"),
            (Shape{2, 16 * 38 * 38 + 24 * 19 * 19, 1, 1}));
  EXPECT_THAT(ErrorOf({{2, 3, 4, 4}, {1, 3, 4, 4}}, "Concat", "concat_param { per_fla_fuse: true }"),
              HasSubstr("must be [N,C,H,W] of one N"));
  EXPECT_THAT(ErrorOf({{2, 3, 4, 4}, {2, 3}}, "Concat", "concat_param { per_fla_fuse: true }"),
              HasSubstr("must be [N,C,H,W] of one N"));
  EXPECT_THAT(ErrorOf({{2, 3, 4, 4}}, "Concat", "concat_param { per_fla_fuse: true axis: 2 }"),
              HasSubstr("per_fla_fuse is for axis 1"));
}

TEST(VendorTest, AKernelOfOneHasNoWindowOutside) {
  EXPECT_EQ(ShapeOf({{1, 2, 56, 55}}, "Pooling", "pooling_param { kernel_size: 1 stride: 2 }"), (Shape{1, 2, 28, 28}));
  EXPECT_THAT(ErrorOf({{1, 2, 6, 6}}, "Pooling", "pooling_param { kernel_size: 2 stride: 7 }"),
              HasSubstr("the last window would begin at 7 of spatial axis 0"));
}

TEST(VendorTest, FusedConvolutions) {
  const std::string conv = "convolution_param { num_output: 2 kernel_size: 1 fuse_type: ";
  EXPECT_EQ(ShapeOf({{1, 3, 4, 4}, {1, 2, 4, 4}}, "Convolution", conv + "FUSED_CONV_ELTWISE_RELU }"),
            (Shape{1, 2, 4, 4}));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 4}}, "Convolution", conv + "FUSED_CONV_MAX_POOLING_RELU }"),
              HasSubstr("FUSED_CONV_MAX_POOLING_RELU is not supported"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 4}}, "Convolution", conv + "FUSED_CONV_ELTWISE_RELU }"),
              HasSubstr("takes 2 bottoms and a top, found 1 bottoms and 1 tops"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 4}, {1, 3, 4, 4}}, "Convolution", conv + "FUSED_CONV_RELU }"),
              HasSubstr("Convolution takes a top for each bottom, found 2 bottoms and 1 tops"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 4}, {1, 2, 3, 4}}, "Convolution", conv + "FUSED_CONV_ELTWISE_RELU }"),
              HasSubstr("must have the shape [1,2,4,4] of the convolution, found [1,2,3,4]"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 4}, {1, 2, 4, 4}}, "Convolution",
                      conv + "FUSED_CONV_ELTWISE_RELU eltwise_param { operation: PROD } }"),
              HasSubstr("must be a SUM without coefficients"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 4}}, "Convolution", conv + "FUSED_CONV_RELU relu: true }"),
              HasSubstr("relu and negative_slope must not be given"));
}

TEST(VendorTest, FusedPoolingOfLrn) {
  const auto lrn = [](const std::string& pooling, const std::string& more = "") {
    return StrCat("lrn_param { fuse_type: FUSED_POOL_MAX ", more, " pooling_param { ", pooling, " } }");
  };
  EXPECT_EQ(ShapeOf({{1, 4, 55, 8}}, "LRN", lrn("pool: MAX kernel_size: 3 stride: 2")), (Shape{1, 4, 27, 4}));
  EXPECT_THAT(ErrorOf({{1, 4, 8, 8}}, "LRN", lrn("kernel_size: 3 stride: 2", "norm_region: WITHIN_CHANNEL")),
              HasSubstr("FUSED_POOL_MAX is for ACROSS_CHANNELS"));
  EXPECT_THAT(ErrorOf({{1, 4, 8, 8}}, "LRN", lrn("pool: AVE kernel_size: 3 stride: 2")), HasSubstr("must be pool MAX"));
  EXPECT_THAT(ErrorOf({{1, 4, 8, 8}}, "LRN", lrn("kernel_size: 3 stride: 2 pad: 1")), HasSubstr("must be pool MAX"));
  EXPECT_THAT(ErrorOf({{1, 4, 8, 8}}, "LRN", lrn("kernel_size: 3 stride: 3")),
              HasSubstr("one more than its stride, found 3 and 3"));
  EXPECT_THAT(ErrorOf({{1, 4, 2, 8}}, "LRN", lrn("kernel_size: 3 stride: 2")),
              HasSubstr("the kernel 3 is larger than the bottom [1,4,2,8]"));
}

TEST(VendorTest, AScalarParameterIsAddedToEveryElement) {
  const std::string text = InputText("x", {2, 2}) +
                           "layer { name: \"p\" type: \"Parameter\" top: \"p\" } layer { name: \"l\" type: \"Eltwise\" "
                           "bottom: \"x\" bottom: \"p\" top: \"y\" eltwise_param { coeff: 1 coeff: -2 } }";
  const BuiltNet net = BuildText(text);
  EXPECT_EQ(net.blobs[0].shape, Shape{});
  EXPECT_THAT(TopValues(net, {{"x", {1, 2, 3, 4}}, {"p/0", {0.5}}}, "y"), ElementsAre(0, 1, 2, 3));
  // Only the second bottom may be one number.
  EXPECT_THAT(ErrorsOf(InputText("x", {2, 2}) +
                       "layer { name: \"p\" type: \"Parameter\" top: \"p\" } layer { name: \"l\" type: \"Eltwise\" "
                       "bottom: \"x\" bottom: \"x\" bottom: \"p\" top: \"y\" }"),
              HasSubstr("all bottoms must have one shape"));
}

TEST(VendorTest, PythonLayersOfSynopsys) {
  const auto python = [](const std::string& module, const std::string& layer, const std::string& text) {
    return StrCat("python_param { module: \"", module, "\" layer: \"", layer, "\" param_str: \"", text, "\" }");
  };
  EXPECT_EQ(ShapeOf({{1, 64, 26, 26}}, "Python", python("yolov2", "darknet_reorg", "")), (Shape{1, 256, 13, 13}));
  EXPECT_THAT(ErrorOf({{1, 64, 26, 25}}, "Python", python("yolov2", "darknet_reorg", "")),
              HasSubstr("do not divide by the stride 2"));
  EXPECT_THAT(ErrorOf({{1, 2, 3, 3}}, "Python", python("pad", "PadTensor", "{'pad_t': 1, 'pad_mode': 'reflect'}")),
              HasSubstr("'pad_mode' must be 'constant', zeros, found 'reflect'"));
  EXPECT_THAT(ErrorOf({{1, 2}}, "Python", python("pad", "PadTensor", "{'pad_mode': 'constant'}")),
              HasSubstr("must be [N,C,H,W]"));
  EXPECT_THAT(ErrorOf({{2, 3}, {3}}, "Python", python("eltwise", "Eltwise", "{'operation': 5}")),
              HasSubstr("'operation' must be from 0 to 4"));
  EXPECT_THAT(ErrorOf({{2, 3}, {3}}, "Python", python("eltwise", "Eltwise", "{'operation': 1, 'coeff': [1]}")),
              HasSubstr("'coeff' must be two numbers, found 1"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, "Python", python("eltwise", "Eltwise", "{'operation': 0}")),
              HasSubstr("must agree on axis -1"));
}

TEST(VendorTest, MistakesOfSmallLayers) {
  EXPECT_THAT(ErrorOf({{2, 3}}, "Sparsify", "sparsify_param { thre: -1 }"), HasSubstr("thre must not be negative"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Sparsify", "sparsify_param { coef: -1 }"), HasSubstr("coef must not be negative"));
  EXPECT_THAT(ErrorOf({{2, 3}, {3, 2}}, "AbsLoss", ""), HasSubstr("must have one batch and one count"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 2}}, "DiceCoefLoss", ""), HasSubstr("must have one batch and one count"));
  EXPECT_EQ(ShapeOf({{1, 2, 33, 65}}, "ICNetSubgraph", ""), (Shape{1, 2, 33, 65}));
  EXPECT_THAT(ErrorOf({{1, 2, 33}}, "ICNetSubgraph", ""), HasSubstr("must be [N,C,H,W]"));
  EXPECT_THAT(ErrorOf({{1, 2, 1, 65}}, "ICNetSubgraph", ""), HasSubstr("do not fit the bottom [1,2,1,65]"));
}

constexpr const char* kSecond = "yolo_v2_loss_param { side: 2 num_classes: 1 num_object: 1 anchors: 1 anchors: 1 ";

// Boxes are drawn to their anchors' until 12800 images were seen.
TEST(VendorTest, YoloV2LossCountsItsImages) {
  const BuiltNet net = BuildText(Layer({{2, 6, 2, 2}, {2, 28}}, "YoloV2Loss", std::string(kSecond) + "}"));
  Feeds feeds{{"a", std::vector<double>(48, 0.0)}};
  for (size_t i = 0; i < 4; ++i) feeds["a"][8 + i] = 1;  // the widths of the first image
  const double others = 0.5 * 0.25;                      // noobject_scale times the square of 0.5, the mean over 8
  EXPECT_NEAR(TopValues(net, feeds, "y")[0], others + 4 * 0.01, 1e-9);  // no object: over 1
  feeds["l/@seen"] = {12799};
  EXPECT_NEAR(TopValues(net, feeds, "y")[0], others + 4 * 0.01, 1e-9);
  feeds["l/@seen"] = {12800};
  EXPECT_NEAR(TopValues(net, feeds, "y")[0], others, 1e-9);
  const auto next = [&](double seen) {
    feeds["l/@seen"] = {seen};
    return Evaluate(net.graph, feeds, {net.graph.assignments()[0].value})[0].values[0];
  };
  ASSERT_EQ(net.graph.assignments().size(), 1U);
  EXPECT_EQ(next(0), 2);
  EXPECT_EQ(next(12799), 12801);
  EXPECT_EQ(next(12801), 12801);
}

TEST(VendorTest, MistakesOfYolosLosses) {
  const auto second = [](const DimLists& shapes, const std::string& fields) {
    return ErrorOf(shapes, "YoloV2Loss", StrCat("yolo_v2_loss_param { ", fields, " }"));
  };
  const std::string one = "num_classes: 1 num_object: 1 anchors: 1 anchors: 1";
  EXPECT_THAT(second({{1, 6, 2, 2}, {1, 28}}, "side: 3 " + one), HasSubstr("side is 3 but the bottom [1,6,2,2]"));
  EXPECT_THAT(second({{1, 6, 2, 2}, {1, 27}}, "side: 2 " + one), HasSubstr("labels must be [1,28], 7 numbers a cell"));
  EXPECT_THAT(second({{1, 6, 2, 2}, {1, 28}}, "side: 2 num_object: 1"), HasSubstr("num_classes must be at least 1"));
  EXPECT_THAT(second({{1, 6, 2, 2}, {1, 28}}, "side: 2 num_classes: 1"), HasSubstr("num_object must be at least 1"));
  EXPECT_THAT(second({{1, 6, 2, 2}, {1, 28}}, "side: 2 num_classes: 1 num_object: 1 anchors: 1"),
              HasSubstr("a width and a height for 1 anchors"));
  EXPECT_THAT(second({{1, 7, 2, 2}, {1, 28}}, "side: 2 " + one), HasSubstr("must be [N,1*6,H,W]"));
  const auto third = [](const std::string& fields) {
    return ErrorOf({{1, 6, 2, 2}, {1, 28}}, "YoloV3Loss",
                   StrCat("yolo_v3_loss_param { side: 2 num_classes: 1 num_object: 1 total_object: 2 anchors: 1 "
                          "anchors: 1 anchors: 2 anchors: 2 ",
                          fields, " }"));
  };
  EXPECT_EQ(third("mask: 0"), "built");
  EXPECT_THAT(third(""), HasSubstr("mask must name the 1 anchors of this map"));
  EXPECT_THAT(third("mask: 2"), HasSubstr("mask 2 is none of the 2 anchors"));
  EXPECT_THAT(third("mask: 1"), HasSubstr("must be at least 1, found 0"));
  EXPECT_EQ(third("mask: 1 net_w: 64 net_h: 64"), "built");
}

TEST(VendorTest, ImagesWithLabelsByCells) {
  const auto data = [](const std::string& tops, const std::string& fields) {
    return ErrorsOf("layer { name: \"d\" type: \"AnnotatedData\" top: \"data\" " + tops + " " + fields + " }");
  };
  const std::string yolo = "transform_param { caffe_yolo: true } ";
  EXPECT_THAT(data("top: \"a\" top: \"b\"", yolo + "data_param { side: 13 }"), HasSubstr("found 1 for 2 tops"));
  EXPECT_THAT(data("top: \"a\"", yolo + "data_param { side: 13 random: true }"), HasSubstr("random: true changes"));
  EXPECT_THAT(data("top: \"a\" top: \"b\" top: \"c\"", ""), HasSubstr("takes 1 to 3 tops, found 4"));
}

}  // namespace
}  // namespace moka
