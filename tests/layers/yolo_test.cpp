// YOLO's layers: shapes, padding and messages. Their values are in tests/golden/layers_yolo.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kAnchors = "biases: 1 biases: 1 biases: 2 biases: 2 ";

TEST(YoloTest, ReorgMovesPixelsToChannelsAsDarknetDoes) {
  // 4 channels of 2 x 2, stride 2: the bottom is read as one plane of 4 x 4.
  const BuiltNet net = BuildText(Layer({{1, 4, 2, 2}}, "Reorg", "reorg_param { stride: 2 }"));
  EXPECT_EQ(net.graph.shape(net.tops.at("y")), (Shape{1, 16, 1, 1}));
  std::vector<double> x(16);
  for (size_t i = 0; i < 16; ++i) x[i] = static_cast<double>(i);
  EXPECT_THAT(TopValues(net, {{"a", x}}, "y"), ElementsAre(0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15));
  EXPECT_EQ(ShapeOf({{2, 8, 3, 5}}, "Reorg", "reorg_param { stride: 2 reverse: true }"), (Shape{2, 2, 6, 10}));
}

TEST(YoloTest, ReorgMistakes) {
  EXPECT_THAT(ErrorOf({{1, 4, 2, 2}}, "Reorg", "reorg_param { stride: 0 }"), HasSubstr("stride must be from 1"));
  EXPECT_THAT(ErrorOf({{1, 6, 2, 2}}, "Reorg", "reorg_param { stride: 2 }"),
              HasSubstr("channels [1,6,2,2] do not divide by stride^2 = 4"));
  EXPECT_THAT(ErrorOf({{1, 4, 3, 2}}, "Reorg", "reorg_param { stride: 2 }"),
              HasSubstr("do not divide by the stride 2"));
}

TEST(YoloTest, ALossWithoutObjectsPushesObjectnessDown) {
  // p = sigmoid(0) = 0.5: the rule is 0.5 * 0.5 * 0.25 for each of 2 x 4 anchors.
  const BuiltNet net = BuildText(Layer({{1, 14, 2, 2}, {1, 1, 1, 8}}, "RegionLoss",
                                       StrCat("region_loss_param { num_class: 2 num: 2 ", kAnchors, "}")));
  EXPECT_THAT(TopValues(net, {{"b", {-1, -1, -1, -1, -1, -1, -1, -1}}}, "y"), ElementsAre(8 * 0.0625 * 0.0625));
}

TEST(YoloTest, ObjectsOutsideTheImageOrTheClassesAreLeftOut) {
  const std::string layer = StrCat("region_loss_param { num_class: 2 num: 2 ", kAnchors, "}");
  const BuiltNet net = BuildText(Layer({{1, 14, 2, 2}, {1, 20}}, "RegionLoss", layer));
  const auto loss = [&](const std::vector<double>& label) { return TopValues(net, {{"b", label}}, "y").front(); };
  const double without = loss(std::vector<double>(20, 0));
  std::vector<double> outside(20, 0);
  outside = {0, 1.5, 0.5, 0.1, 0.1, 7, 0.5, 0.5, 0.1, 0.1, 1, 0.5, -0.5, 0.1, 0.1, 0, 0, 0, 0, 0};
  EXPECT_DOUBLE_EQ(loss(outside), without);
  outside[10 + 2] = 0.5;
  EXPECT_NE(loss(outside), without);
}

TEST(YoloTest, RegionLossMistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{1, 14, 2, 2}, {1, 1, 1, 8}}, "RegionLoss", "region_loss_param { " + fields + " }");
  };
  EXPECT_EQ(error(StrCat("num_class: 2 num: 2 ", kAnchors)), "built");
  EXPECT_THAT(error("num_class: 2 num: 2 biases: 1"),
              HasSubstr("region_loss_param.biases must give a width and a height for 2 anchors, found 1 numbers"));
  EXPECT_THAT(error("num_class: 2 num: 1 biases: 1 biases: 0"), HasSubstr("biases must be above 0, found 0"));
  EXPECT_THAT(error(StrCat("num_class: 3 num: 2 ", kAnchors)),
              HasSubstr("the bottom must be [N,2*8,H,W], 2 anchors of 8 channels, found [1,14,2,2]"));
  EXPECT_THAT(error("coords: 5"), HasSubstr("a box has 4 coordinates, found 5"));
  EXPECT_THAT(
      ErrorOf({{1, 14, 2, 2}, {1, 7}}, "RegionLoss", StrCat("region_loss_param { num_class: 2 num: 2 ", kAnchors, "}")),
      HasSubstr("labels are rows of 8 values [1,1,M,8] or lists of 5 values for each of the 1 images"));
}

TEST(YoloTest, Yolov3Mistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{1, 14, 2, 2}, {1, 10}}, "Yolov3",
                   StrCat("yolov3_param { num_class: 2 num: 2 ", kAnchors, fields, " }"));
  };
  EXPECT_EQ(error("mask: 0 mask: 1"), "built");
  EXPECT_THAT(error("mask: 0"), HasSubstr("mask must name the 2 anchors of this map (num), found 1"));
  EXPECT_THAT(error("mask: 0 mask: 2"), HasSubstr("mask 2 is none of the 2 anchors of biases"));
  EXPECT_THAT(error("mask: 0 mask: 1 anchors_scale: 0"), HasSubstr("anchors_scale must be at least 1"));
}

TEST(YoloTest, DetectionsHaveARowForEveryAnchor) {
  const std::string v2 = StrCat("yolo_detection_output_param { num_classes: 2 num_box: 2 ", kAnchors, "}");
  EXPECT_EQ(ShapeOf({{3, 14, 2, 2}, {3, 14, 4, 4}}, "YoloDetectionOutput", v2), (Shape{1, 1, 3 * 2 * 20, 7}));
  const std::string v3 = StrCat("yolov3_detection_output_param { num_classes: 2 num_box: 2 confidence_threshold: 0.9 ",
                                kAnchors, "mask_group_num: 1 mask: 0 mask: 1 anchors_scale: 8 }");
  const BuiltNet net = BuildText(Layer({{1, 14, 2, 3}}, "Yolov3DetectionOutput", v3), TEST);
  EXPECT_EQ(net.graph.shape(net.tops.at("y")), (Shape{1, 1, 12, 7}));
  EXPECT_THAT(TopValues(net, {}, "y"), Each(-1));
}

TEST(YoloTest, DetectionMistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{1, 14, 2, 2}}, "Yolov3DetectionOutput",
                   StrCat("yolov3_detection_output_param { num_classes: 2 num_box: 2 ", kAnchors, fields, " }"));
  };
  EXPECT_THAT(error("mask: 0 mask: 1 anchors_scale: 8"), HasSubstr("must be the number of bottoms, 1, found 2"));
  EXPECT_THAT(error("mask_group_num: 1 mask: 0 anchors_scale: 8"),
              HasSubstr("mask must name 2 anchors (num_box) for each of 1 maps, found 1"));
  EXPECT_THAT(error("mask_group_num: 1 mask: 0 mask: 5 anchors_scale: 8"), HasSubstr("mask 5 is none of the 2"));
  EXPECT_THAT(error("mask_group_num: 1 mask: 0 mask: 1"),
              HasSubstr("anchors_scale must be given for each of 1 maps, found 0"));
  EXPECT_THAT(ErrorOf({{1, 14, 2, 2}, {1, 1, 1, 8}}, "EvalDetection",
                      StrCat("eval_detection_param { num_class: 2 num_object: 2 ", kAnchors, "}")),
              HasSubstr("nms must be given"));
}

TEST(YoloTest, EvaluationDoesNotReadTheImages) {
  EXPECT_EQ(ShapeOf({{1, 14, 2, 2}, {1, 1, 1, 8}, {1, 3, 8, 8}}, "EvalDetection",
                    StrCat("eval_detection_param { num_class: 2 num_object: 2 nms: 0.45 ", kAnchors, "}")),
            (Shape{1, 2 + 2 * 2 * 2 * 4}));
}

TEST(YoloTest, BoxDataIsFedFromOutside) {
  const BuiltNet net = BuildText("layer { name: \"b\" type: \"BoxData\" top: \"data\" top: \"label\" }");
  EXPECT_EQ(net.data.size(), 1U);
  EXPECT_EQ(net.graph.shape(net.tops.at("data")), (Shape{4, 3, 8, 8}));
}

}  // namespace
}  // namespace moka
