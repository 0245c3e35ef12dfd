// Detection with branches and cascades: shapes and mistakes of its layers, what its random samplers promise, and how
// losses leave out rows of padding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFields = "field_w: 16 field_h: 16 field_w: 32 field_h: 32 ";

TEST(CascadeTest, DataShapes) {
  const std::string image = "batch_size: 2 resize_width: 96 resize_height: 64 " + kFields;
  const std::string strides = "downsample_rate: 8 downsample_rate: 16 ";
  EXPECT_THAT(ShapesOf({}, {"x", "a", "b", "o"},
                       "type: \"ImageGtData\" image_gt_data_param { output_gt_boxes: true " + image + strides + "}"),
              ElementsAre(Shape{2, 3, 64, 96}, Shape{2, 6, 8, 12}, Shape{2, 6, 4, 6}, Shape{128, 7, 1, 1}));
  EXPECT_THAT(
      ShapesOf({}, {"x", "a", "b"},
               "type: \"ImageGtData\" image_gt_data_param { crop_width: 40 crop_height: 48 " + image + strides + "}"),
      ElementsAre(Shape{2, 3, 48, 40}, Shape{2, 6, 6, 5}, Shape{2, 6, 3, 3}));
  EXPECT_THAT(ShapesOf({}, {"x", "a", "b", "o"},
                       "type: \"DetectionData\" detection_data_param { batch_size: 1 short_size: 600 long_size: 1000 "
                       "stride: 16 stride: 16 output_gt_boxes: true " +
                           kFields + "}"),
              ElementsAre(Shape{1, 3, 1000, 600}, Shape{1, 6, 63, 38}, Shape{1, 6, 63, 38}, Shape{64, 8, 1, 1}));
  EXPECT_THAT(ShapesOf({}, {"x", "o", "s"},
                       "type: \"EvalData\" eval_data_param { batch_size: 1 short_size: 600 long_size: 1000 }", TEST),
              ElementsAre(Shape{1, 3, 1000, 600}, Shape{64, 8, 1, 1}, Shape{1, 2, 1, 1}));
  EXPECT_THAT(ShapesOf({}, {"x", "i", "o"}, "type: \"FrcnnRoiData\""),
              ElementsAre(Shape{1, 3, 600, 1000}, Shape{1, 3, 1, 1}, Shape{64, 5, 1, 1}));
  EXPECT_THAT(OneLayerErrors({}, {"x", "a"}, "type: \"ImageGtData\" image_gt_data_param { " + image + strides + "}"),
              HasSubstr("there must be 3 tops: the image, the labels of 2 anchors; found 2"));
  EXPECT_THAT(OneLayerErrors({}, {"x"}, "type: \"ImageGtData\" image_gt_data_param { batch_size: 1 }"),
              HasSubstr("the image's size must be given"));
  EXPECT_THAT(
      OneLayerErrors({}, {"x"}, "type: \"EvalData\" eval_data_param { batch_size: 2 short_size: 6 long_size: 9 }"),
      HasSubstr("eval_data_param.batch_size must be 1"));
}

TEST(CascadeTest, ProposalShapesAndMistakes) {
  const std::vector<NamedInput> maps = {{"a", {2, 7, 4, 6}}, {"b", {2, 7, 2, 3}}};
  const auto fields = [](const std::string& more) {
    return "type: \"BoxOutput\" box_output_param { downsample_rate: 8 downsample_rate: 16 " + kFields + more + "}";
  };
  EXPECT_THAT(ShapesOf(maps, {"r", "s"}, fields("")), ElementsAre(Shape{60, 5, 1, 1}, Shape{60, 6, 1, 1}));
  EXPECT_THAT(ShapesOf(maps, {"r"}, fields("max_nms_num: 9 max_post_nms_num: 5")), ElementsAre(Shape{10, 5, 1, 1}));
  EXPECT_THAT(OneLayerErrors({maps[0]}, {"r"}, fields("")),
              HasSubstr("once for each of the 1 bottoms, found 2, 2 and 2"));
  EXPECT_THAT(OneLayerErrors(maps, {"r"}, fields("nms_type: \"soft\"")),
              HasSubstr("nms_type must be IOU, IOMU or IOFU"));
  EXPECT_THAT(OneLayerErrors(maps, {"r"}, fields("field_xyr: 0")), HasSubstr("field_xyr must be above 0"));
  EXPECT_THAT(OneLayerErrors(maps, {"r"}, fields("") + " bbox_reg_param { bbox_mean: 0 bbox_std: 1 }"),
              HasSubstr("must be given four times each"));
  EXPECT_THAT(OneLayerErrors(
                  {{"p", {3, 2, 4, 4}}, {"t", {3, 4, 4, 4}}}, {"r"},
                  "type: \"BoxGroupOutput\" box_group_output_param { box_group_param { stride: 8 " + kFields + "} }"),
              HasSubstr("branch 0 of 2 anchors"));
}

TEST(CascadeTest, LossMistakes) {
  const std::vector<NamedInput> maps = {{"x", {2, 7, 4, 5}}, {"label", {2, 6, 4, 5}}};
  const std::string one = "field_w: 16 field_h: 16 downsample_rate: 8 ";
  EXPECT_THAT(OneLayerErrors(maps, {"y"}, "type: \"DetectionLoss\" detection_loss_param { " + one + "}"),
              HasSubstr("cls_num must be given"));
  EXPECT_THAT(OneLayerErrors(maps, {"y"}, "type: \"DetectionLoss\" detection_loss_param { cls_num: 4 " + one + "}"),
              HasSubstr("must be [N,cls_num+4,H,W]"));
  EXPECT_THAT(
      OneLayerErrors({{"s", {2, 2, 4, 5}}, {"t", {2, 4, 4, 5}}, {"label", {2, 6, 4, 5}}}, {"y"},
                     "type: \"DetectionGroupLoss\" detection_group_loss_param { cls_num: 2 stride: 8 neg_mining_type: "
                     "\"hard\" " +
                         kFields + "}"),
      HasSubstr("neg_mining_type must be one of random, bootstrap, mixture"));
}

// Objects of class 1 in the first 12 of 60 positions.
TEST(CascadeTest, RandomSamplesOfABranch) {
  std::vector<double> labels(2 * 6 * 30, 0.0);
  for (size_t item = 0; item < 2; ++item) {
    for (size_t i = 0; i < 6; ++i) labels[item * 180 + i] = 1;
    for (size_t i = 0; i < 30; ++i) {
      for (size_t k = 1; k < 5; ++k) labels[item * 180 + k * 30 + i] = 20;
    }
  }
  const BuiltNet net =
      BuildText(OneLayer({{"s", {2, 2, 5, 6}}, {"t", {2, 4, 5, 6}}, {"label", {2, 6, 5, 6}}}, {"y"},
                         "type: \"DetectionGroupLoss\" detection_group_loss_param { cls_num: 2 stride: 8 "
                         "batch_size: 16 bg_multiple: 1 bg_threshold: 0.5 " +
                             kFields + "}"));
  std::vector<ValueId> outputs;
  for (const NodeId id : net.graph.TopologicalOrder()) {
    if (net.graph.node(id).op->name == "branch_targets") outputs = net.graph.node(id).outputs;
  }
  ASSERT_EQ(outputs.size(), 4U);
  std::vector<double> first;
  for (const double key : {1.0, 2.0, 1.0}) {
    const auto values = Evaluate(net.graph, {{"label", labels}, {"random_key", {key}}}, outputs);
    const std::vector<double>& classes = values[0].values;
    EXPECT_EQ(std::ranges::count(classes, 1), 8);
    EXPECT_EQ(std::ranges::count(classes, 0), 8);
    EXPECT_NEAR(values[1].values[static_cast<size_t>(std::ranges::find(classes, 1.0) - classes.begin())], 1.0 / 16,
                1e-9);
    if (first.empty()) first = classes;
    EXPECT_EQ(first == classes, key == 1);
  }
}

// MS-CNN fills its batch with random boxes that overlap no object.
TEST(CascadeTest, RandomBackground) {
  const BuiltNet net = BuildText(OneLayer({{"rois", {2, 5}}, {"objects", {1, 7}}}, {"r", "c", "t", "i", "o", "m"},
                                          "type: \"ProposalTarget\" proposal_target_param { cls_num: 3 batch_size: 12 "
                                          "num_img_per_batch: 2 img_width: 200 img_height: 100 }"));
  const Feeds feeds = {
      {"rois", {-1, -1, -1, -1, -1, 1, 2, 3, 50, 60}}, {"objects", {1, 2, 3, 50, 62, 2, 0}}, {"random_key", {7}}};
  const std::vector<double> rois = TopValues(net, feeds, "r");
  const std::vector<double> labels = TopValues(net, feeds, "c");
  EXPECT_EQ(std::ranges::count(labels, 2), 2);  // the proposal and the object's own box
  EXPECT_EQ(std::ranges::count(labels, 0), 10);
  for (size_t m = 0; m < 12; ++m) {
    EXPECT_GE(rois[m * 5], 0);
    EXPECT_LT(rois[m * 5], 2);
    EXPECT_LE(rois[m * 5 + 3], 200 + 32);
    EXPECT_GE(rois[m * 5 + 3] - rois[m * 5 + 1], 31);
  }
}

TEST(CascadeTest, RegionMistakes) {
  const std::vector<std::string> tops = {"r", "c", "t", "i", "o", "m"};
  const auto fields = [](const std::string& more) {
    return "type: \"ProposalTarget\" proposal_target_param { cls_num: 3 " + more + "}";
  };
  EXPECT_THAT(OneLayerErrors({{"rois", {2, 5}}, {"objects", {1, 6}}}, tops, fields("")),
              HasSubstr("must have 7 (MS-CNN) or 8"));
  EXPECT_THAT(OneLayerErrors({{"rois", {2, 5}}, {"objects", {1, 7}}}, tops, fields("batch_size: 0 ")),
              HasSubstr("batch_size must be -1 or at least 1"));
  EXPECT_THAT(OneLayerErrors({{"t", {2, 8}}, {"rois", {2, 5}}, {"m", {2, 6}}}, {"y"}, "type: \"DecodeBBox\"", TEST),
              HasSubstr("phase TRAIN only"));
  EXPECT_THAT(OneLayerErrors({{"rois", {2, 5}}, {"x", {3, 5}}}, {"a", "b"}, "type: \"ScaleRoute\""),
              HasSubstr("every bottom must have a row a region"));
  EXPECT_THAT(OneLayerErrors({{"s", {2}}, {"rois", {2, 5}}}, {"a", "b"}, "type: \"HardMining\""),
              HasSubstr("there must be 1 tops for 2 bottoms"));
  EXPECT_THAT(
      OneLayerErrors({{"p", {2, 3}}, {"t", {2, 8}}, {"r", {2, 5}}, {"s", {1, 2}}}, {"y"}, "type: \"FrcnnOutput\""),
      HasSubstr("offsets must have 12 columns"));
  EXPECT_THAT(OneLayerErrors({{"r", {4, 5}}, {"g", {2, 5}}}, {"a", "b", "c", "d", "e"},
                             "type: \"FrcnnProposalTarget\" proposal_target_param { stage: 1 }"),
              HasSubstr("stage must be 0"));
}

TEST(CascadeTest, FrcnnShapes) {
  const std::vector<NamedInput> maps = {{"p", {1, 18, 4, 6}}, {"t", {1, 36, 4, 6}}, {"info", {1, 3}}};
  EXPECT_THAT(ShapesOf(maps, {"r", "s"}, "type: \"FrcnnProposal\""),
              ElementsAre(Shape{2000, 5, 1, 1}, Shape{2000, 1, 1, 1}));
  EXPECT_THAT(ShapesOf(maps, {"r"}, "type: \"FrcnnProposal\"", TEST), ElementsAre(Shape{300, 5, 1, 1}));
  EXPECT_THAT(ShapesOf({maps[0], {"g", {8, 5, 1, 1}}, {"info", {1, 3, 1, 1}}}, {"a", "b", "c", "d"},
                       "type: \"FrcnnAnchorTarget\""),
              ElementsAre(Shape{1, 1, 36, 6}, Shape{1, 36, 4, 6}, Shape{1, 36, 4, 6}, Shape{1, 36, 4, 6}));
  const Shape wide{128, 84, 1, 1};
  EXPECT_THAT(ShapesOf({{"r", {300, 5, 1, 1}}, {"g", {8, 5, 1, 1}}}, {"a", "b", "c", "d", "e"},
                       "type: \"FrcnnProposalTarget\""),
              ElementsAre(Shape{128, 5, 1, 1}, Shape{128, 1, 1, 1}, wide, wide, wide));
}

// The rows of a pyramid's routes close up again, so that a cascade of them does not grow.
TEST(CascadeTest, RoutesCloseUp) {
  const auto rows = [](const std::string& second) {
    const BuiltNet net = BuildText(
        InputText("rois", {40, 5}) + InputText("offsets", {80, 8}) +
            "layer { name: \"a\" type: \"ScaleRoute\" bottom: \"rois\" top: \"a\" scale_route_param { high_scale: 30 } "
            "}"
            "layer { name: \"b\" type: \"ScaleRoute\" bottom: \"rois\" top: \"b\" scale_route_param { low_scale: " +
            second +
            " } }"
            "layer { name: \"c\" type: \"Concat\" bottom: \"a\" bottom: \"b\" top: \"c\" concat_param { axis: 0 } }"
            "layer { name: \"d\" type: \"DecodeBBox\" bottom: \"offsets\" bottom: \"c\" top: \"d\" propagate_down: 0 "
            "propagate_down: 0 }",
        TEST);
    return net.graph.shape(net.tops.at("d"))[0];
  };
  EXPECT_EQ(rows("30"), 42);
  EXPECT_EQ(rows("20"), 80);
}

// One region is foreground, one background, the others are padding: losses and the accuracy are means over the two.
TEST(CascadeTest, LossesLeavePaddingOut) {
  const std::string text =
      OneLayer({{"rois", {4, 5}}, {"objects", {1, 8}}}, {"r", "labels", "goal", "inside", "outside", "m"},
               "type: \"ProposalTarget\" proposal_target_param { cls_num: 2 batch_size: 6 append_gtbox: false }") +
      InputText("scores", {6, 2}) + InputText("offsets", {6, 8}) +
      "layer { name: \"s\" type: \"SoftmaxWithLoss\" bottom: \"scores\" bottom: \"labels\" top: \"s\" }"
      "layer { name: \"a\" type: \"Accuracy\" bottom: \"scores\" bottom: \"labels\" top: \"a\" }"
      "layer { name: \"b\" type: \"SmoothL1Loss\" bottom: \"offsets\" bottom: \"goal\" bottom: \"inside\" bottom: "
      "\"outside\" top: \"b\" top: \"rows\" }";
  const BuiltNet net = BuildText(text);
  const Feeds feeds = {{"rois", {0, 10, 10, 29, 29, 0, 10, 10, 89, 89, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}},
                       {"objects", {0, 10, 10, 29, 29, 1, 0, 0}},
                       {"scores", {0, std::log(3.0), 0, std::log(3.0), 5, 5, 5, 5, 5, 5, 5, 5}},
                       {"offsets", std::vector<double>(48, 3.0)}};
  EXPECT_THAT(TopValues(net, feeds, "labels"), ElementsAre(1, 0, -1, -1, -1, -1));
  EXPECT_THAT(TopValues(net, feeds, "s"), Each(DoubleNear(-(std::log(0.75) + std::log(0.25)) / 2, 1e-9)));
  EXPECT_THAT(TopValues(net, feeds, "a"), ElementsAre(0.5));
  EXPECT_THAT(TopValues(net, feeds, "b"), ElementsAre(4 * 2.5 / 2));
}

}  // namespace
}  // namespace moka
