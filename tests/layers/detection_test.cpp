// Forks' versions of detection's layers, and of poses: shapes and mistakes that goldens do not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "one_layer.h"

namespace moka {
namespace {

using testing::HasSubstr;

Shape TopShape(const std::string& text, Phase phase = TRAIN) {
  const BuiltNet net = BuildText(text, phase);
  return net.graph.shape(net.tops.at("y"));
}

std::string PriorOf(const std::string& fields, const std::string& type = "PriorBox") {
  return Layer({{1, 8, 4, 6}, {1, 3, 64, 96}}, type, "prior_box_param { " + fields + " }");
}

TEST(PriorDialectsTest, Shapes) {
  constexpr int64_t kNumbers = 4 * 6 * 4;
  EXPECT_EQ(TopShape(PriorOf("use_default: false min_size: 8 max_size: 9 aspect_ratio: 2 aspect_ratio: 3")),
            (Shape{1, 2, kNumbers * 8}));
  EXPECT_EQ(
      TopShape(PriorOf("min_size: 7 min_size: 9 aspect_ratio: 0.3 flip: false offset_w: 0.5 offset_h: 0.2 offset_h: "
                       "0.8")),
      (Shape{1, 2, kNumbers * 4}));
  EXPECT_EQ(TopShape(PriorOf("faceboxes: true min_size: 32 min_size: 64 min_size: 128")), (Shape{1, 2, kNumbers * 21}));
  EXPECT_EQ(TopShape(PriorOf("textboxes: true min_size: 8 aspect_ratio: 2 flip: false")), (Shape{1, 2, kNumbers * 4}));
  EXPECT_EQ(TopShape(PriorOf("width: 8 width: 3.5 height: 9 height: 1", "PriorBoxClustered")),
            (Shape{1, 2, kNumbers * 2}));
}

TEST(PriorDialectsTest, Mistakes) {
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 8 use_default: false")),
              HasSubstr("aspect_ratio must have another value than 1"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 8 offset_w: 0.5")), HasSubstr("offset_w and offset_h must both be given"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 8 aspect_ratio: 2 offset_w: 1.5 offset_h: 0.5")),
              HasSubstr("offset_w must be from 0 to 1, found 1.5"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 8 max_size: 9 aspect_ratio: 2 offset_w: 0 offset_h: 0")),
              HasSubstr("max_size has no boxes with offset_w"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 8 tf: true faceboxes: true")), HasSubstr("give those of one"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 8 width: 4 height: 4")),
              HasSubstr("width and height are PriorBoxClustered's"));
  EXPECT_THAT(ErrorsOf(PriorOf("", "PriorBoxClustered")), HasSubstr("width and height must be given"));
  EXPECT_THAT(ErrorsOf(PriorOf("width: 4 width: 5 height: 4", "PriorBoxClustered")),
              HasSubstr("width is given 2 times and height 1 times"));
  EXPECT_THAT(ErrorsOf(PriorOf("width: 4 height: 4 min_size: 3", "PriorBoxClustered")), HasSubstr("are PriorBox's"));
}

TEST(DetectionDialectsTest, Shapes) {
  const std::string maps = "detection_output_param { num_classes: 3 keep_top_k: 5 no_permute: true nbottom: 2 }";
  // Two maps of 2 x 3 and 1 x 1 cells with 2 and 4 boxes a cell: 16 priors.
  EXPECT_EQ(
      TopShape(Layer({{2, 3, 2, 6}, {2, 3, 4, 1}, {2, 8, 2, 3}, {2, 16, 1, 1}, {1, 2, 64}}, "DetectionOutput", maps)),
      (Shape{1, 1, 10, 7}));
  EXPECT_EQ(TopShape(Layer({{2, 3, 2, 6}, {2, 3, 4, 1}, {2, 8, 2, 3}, {2, 16, 1, 1}, {1, 2, 48}, {1, 2, 16}},
                           "DetectionOutput", maps)),
            (Shape{1, 1, 10, 7}));
  EXPECT_EQ(TopShape(Layer({{1, 16, 2, 3}}, "DetectionOutput",
                           "detection_output_param { classes: 3 num_box: 2 biases: 1 biases: 2 biases: 2 biases: 1 }")),
            (Shape{1, 1, 12, 7}));
  // TL-SSD's states are asked for and not written.
  EXPECT_EQ(TopShape(Layer({{1, 8}, {1, 4}, {1, 2, 8}, {1, 12}}, "DetectionOutput",
                           "detection_output_param { num_classes: 2 keep_top_k: 2 do_state_prediction: true }")),
            (Shape{1, 1, 2, 7}));
}

TEST(DetectionDialectsTest, Mistakes) {
  const auto maps = [](const std::vector<std::vector<int64_t>>& shapes) {
    return ErrorsOf(
        Layer(shapes, "DetectionOutput", "detection_output_param { num_classes: 3 no_permute: true nbottom: 3 }"));
  };
  const std::vector<int64_t> conf = {1, 3, 2, 6};
  const std::vector<int64_t> loc = {1, 8, 2, 3};
  EXPECT_THAT(maps({conf, conf, conf, loc, loc, loc}), HasSubstr("nbottom = 3 maps and their priors"));
  EXPECT_THAT(maps({conf, conf, conf, loc, loc, {1, 8, 3, 3}, {1, 2, 8}}),
              HasSubstr("confidences [N,3,boxes,H*W] and locations [N,boxes*4,H,W], found [1,3,2,6] and [1,8,3,3]"));
  const auto error = [](const std::vector<std::vector<int64_t>>& shapes, const std::string& fields) {
    return ErrorsOf(Layer(shapes, "DetectionOutput", "detection_output_param { num_classes: 2 " + fields + " }"));
  };
  EXPECT_THAT(error({{1, 4}, {1, 2}}, ""), HasSubstr("takes 3 to 5 bottoms, found 2"));
  EXPECT_THAT(error({{1, 8}, {1, 4}, {1, 10}}, "normalized: false"),
              HasSubstr("variance_encoded_in_target must be true"));
  EXPECT_THAT(error({{1, 8}, {1, 4}, {1, 8}}, "normalized: false variance_encoded_in_target: true"),
              HasSubstr("regions have five numbers each"));
  EXPECT_THAT(error({{1, 8}, {1, 4}, {1, 2, 8}}, "do_state_prediction: true"), HasSubstr("as fourth bottom"));
  EXPECT_THAT(error({{1, 8}, {1, 4}, {1, 2, 8}}, "bias_scale: 3"), HasSubstr("are CenterGridOutput's"));
  EXPECT_THAT(error({{1, 15, 2, 3}}, "classes: 3 num_box: 2 biases: 1 biases: 2 biases: 2 biases: 1"), HasSubstr("15"));
  EXPECT_THAT(error({{1, 16, 2, 3}}, "classes: 3 num_box: 2 biases: 1"), HasSubstr("2 anchors"));
}

TEST(CenterGridOutputTest, ShapesAndMistakes) {
  const auto layer = [](const std::string& fields, int64_t channels = 16) {
    return Layer({{2, channels, 4, 4}, {2, channels, 2, 2}}, "CenterGridOutput",
                 "detection_output_param { bias_scale: 8 bias_scale: 16 " + fields + " }");
  };
  EXPECT_EQ(TopShape(layer("num_classes: 2 class_type: SOFTMAX has_lm: true keep_top_k: 3")), (Shape{1, 1, 6, 17}));
  EXPECT_EQ(TopShape(layer("num_classes: 1", 5)), (Shape{1, 1, 40, 7}));
  EXPECT_THAT(ErrorsOf(layer("num_classes: 2", 5)), HasSubstr("num_classes must be 1 (SIGMOID), found 2"));
  EXPECT_THAT(ErrorsOf(layer("num_classes: 1 has_lm: true")), HasSubstr("landmarks go with class_type: SOFTMAX"));
  EXPECT_THAT(ErrorsOf(layer("num_classes: 1 bias_scale: 3", 5)), HasSubstr("once a bottom, 2 times, found 3"));
  EXPECT_THAT(ErrorsOf(layer("num_classes: 1 keep_top_k: 0", 5)), HasSubstr("keep_top_k must be at least 1"));
  EXPECT_THAT(ErrorsOf(layer("num_classes: 1", 6)), HasSubstr("maps must be [2,5,H,W], found [2,6,4,4]"));
}

TEST(YoloDialectsTest, Shapes) {
  EXPECT_EQ(TopShape(Layer({{1, 8, 4, 6}}, "Reorg", "")), (Shape{1, 32, 2, 3}));
  EXPECT_THAT(ErrorsOf(Layer({{1, 8, 4, 6}}, "Reorg", "reorg_param { stride: 0 }")), HasSubstr("from 1 to 2^31-1"));
  EXPECT_EQ(TopShape(Layer({{1, 8, 4, 6}}, "UpsampleDarknet", "upsample_darknet_param { stride: 3 }")),
            (Shape{1, 8, 12, 18}));
  EXPECT_THAT(ErrorsOf(Layer({{1, 8, 4, 6}}, "UpsampleDarknet", "upsample_darknet_param { stride: 0 }")),
              HasSubstr("stride must be at least 1"));
  EXPECT_THAT(ErrorsOf(Layer({{1, 8, 4, 6}}, "Region", "region_param { classes: 3 boxes_of_each_grid: 2 }")),
              HasSubstr("[N,2*(5+3),H,W], found [1,8,4,6]"));
  const auto loss = [](int64_t width) {
    return ErrorsOf(Layer({{2, 7, 2, 2}, {2, width}}, "RegionLoss",
                          "region_loss_param { num_class: 2 num: 1 num_label: 4 biases: 1 biases: 2 }"));
  };
  EXPECT_EQ(loss(20), "built");
  EXPECT_THAT(loss(30), HasSubstr("num_label is 4 but the labels [2,30] have 6 places an image"));
}

TEST(BatchNormDialectsTest, EpsAfterTheRootIsNotForTraining) {
  const std::string net = Layer({{2, 3, 2, 2}}, "BatchNorm", "batch_norm_param { add_eps_before_sqrt: false }");
  EXPECT_THAT(ErrorsOf(net, TRAIN), HasSubstr("add_eps_before_sqrt: false needs use_global_stats: true"));
  EXPECT_EQ(ErrorsOf(net, TEST), "built");
}

TEST(MaskResizeTest, FactorsStandForSizes) {
  EXPECT_EQ(TopShape(Layer({{1, 2, 20, 36}}, "MaskResize",
                           "mask_resize_param { output_height: 1 output_width: 1 factor_height: 0.125 factor_width: "
                           "0.25 }")),
            (Shape{1, 2, 2, 9}));
  EXPECT_THAT(
      ErrorsOf(Layer({{1, 2, 4, 36}}, "MaskResize", "mask_resize_param { output_width: 1 factor_height: 0.125 }")),
      HasSubstr("must be from 1 to"));
}

TEST(PoseTest, ShapesAndMistakes) {
  EXPECT_EQ(TopShape(Layer({{2, 57, 46, 82}}, "ImResize", "imresize_param { factor: 8 scale_gap: 0.3 }")),
            (Shape{1, 57, 368, 656}));
  EXPECT_EQ(TopShape(Layer({{1, 3, 46, 46}}, "ImResize", "")), (Shape{1, 3, 368, 368}));
  EXPECT_THAT(ErrorsOf(Layer({{1, 3, 4, 4}}, "ImResize", "imresize_param { factor: 0.2 }")),
              HasSubstr("must become 1 to 32768 pixels, found 0.8"));
  EXPECT_THAT(ErrorsOf(Layer({{5, 3, 40, 40}}, "ImResize", "imresize_param { factor: 1 scale_gap: 0.3 }")),
              HasSubstr("leave item 4 of [5,3,40,40] borders of 24 rows and 24 columns"));
  EXPECT_THAT(ErrorsOf(Layer({{1, 3, 40, 40}}, "ImResize", "imresize_param { start_scale: 1.5 }")),
              HasSubstr("borders"));
  EXPECT_EQ(TopShape(Layer({{1, 57, 368, 656}}, "Nms", "nms_param { max_peaks: 64 num_parts: 18 }")),
            (Shape{1, 18, 65, 3}));
  EXPECT_THAT(ErrorsOf(Layer({{1, 3, 9, 9}}, "Nms", "")), HasSubstr("num_parts must be from 1 to the bottom's 3 maps"));
  EXPECT_THAT(ErrorsOf(Layer({{1, 3}}, "Nms", "nms_param { num_parts: 1 }")), HasSubstr("must be [N,C,H,W]"));
}

TEST(GradientScalerTest, Mistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorsOf(Layer({{2, 3}}, "GradientScaler", "gradient_scaler_param { " + fields + " }"));
  };
  EXPECT_THAT(error("lower_bound: 2"), HasSubstr("lower_bound 2 is above upper_bound 1"));
  EXPECT_THAT(error("max_iter: 0"), HasSubstr("max_iter must be at least 1"));
}

TEST(RoiDataTest, OneBoxForAllObjectsWithPositionSensitivePooling) {
  const std::string data =
      "layer { name: \"d\" type: \"Python\" top: \"data\" top: \"rois\" top: \"labels\" top: \"bbox_targets\" top: "
      "\"bbox_inside_weights\" top: \"bbox_outside_weights\" python_param { module: \"roi_data_layer.layer\" layer: "
      "\"RoIDataLayer\" param_str: \"'num_classes': 21\" } }\n";
  const std::string pool =
      "layer { name: \"p\" type: \"Convolution\" bottom: \"data\" top: \"p\" convolution_param { num_output: 72 "
      "kernel_size: 16 stride: 16 } }\n"
      "layer { name: \"l\" type: \"PSROIPooling\" bottom: \"p\" bottom: \"rois\" top: \"y\" psroi_pooling_param { "
      "spatial_scale: 0.0625 output_dim: 8 group_size: 3 } }\n";
  const auto targets = [](const std::string& text) {
    const BuiltNet net = BuildText(text);
    return net.graph.shape(net.tops.at("bbox_targets"));
  };
  EXPECT_EQ(targets(data), (Shape{128, 84}));
  EXPECT_EQ(targets(data + pool), (Shape{128, 8, 1, 1}));
}

}  // namespace
}  // namespace moka
