// Layers of sequences, video and random fields: shapes, dialects and errors the goldens do not cover.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "one_layer.h"
#include "proto/text/text_format.h"
#include "proto/upgrade/upgrade.h"

namespace moka {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SequenceTest, CtcMistakes) {
  EXPECT_THAT(ErrorOf({{5, 2}, {2, 3}}, "CtcLoss"), HasSubstr("the scores must be [steps,sequences,classes]"));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {3, 3}}, "CtcLoss"), HasSubstr("the labels must be [2,length]"));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {2, 3}}, "CtcLoss", "ctc_loss_param { time_step: 6 }"),
              HasSubstr("time_step must be the 5 steps of [5,2,4], found 6"));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {2, 3}}, "CtcLoss", "ctc_loss_param { alphabet_size: 5 }"),
              HasSubstr("alphabet_size must be the 4 classes of [5,2,4], found 5"));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {2, 3}}, "WarpCTCLoss", "ctc_loss_param { blank_index: 4 }"),
              HasSubstr("blank_index must be below the 4 classes, found 4"));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {5, 3}, {5, 2}}, "CTCLoss"), HasSubstr("the marks must be [5,2]"));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {5, 2}, {5, 3}}, "CTCLoss"), HasSubstr("the labels must be [length,2]"));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {5, 2}, {5, 2}}, "CTCLoss", "ctc_loss_param { output_delay: 5 }"),
              HasSubstr("from 0 to below the 5 steps, found 5"));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {3}, {2}, {3, 2}}, "WarpCTCLoss"), HasSubstr("there must be 2 lengths, found [3]"));
}

TEST(SequenceTest, CtcOfNoSequenceIsNothing) {
  const BuiltNet net = BuildText(Layer({{2, 1, 3}, {2, 1}, {2, 1}}, "CTCLoss", ""));
  EXPECT_THAT(TopValues(net, {{"c", {-1, -1}}, {"b", {0, 1}}}, "y"), ElementsAre(0));
}

TEST(SequenceTest, DecoderTellsMarksFromLabels) {
  EXPECT_EQ(ShapeOf({{5, 2, 4}}, "CTCGreedyDecoder"), (Shape{2, 5, 1, 1}));
  EXPECT_EQ(ShapeOf({{5, 2, 4}, {5, 2}}, "CTCGreedyDecoder"), (Shape{2, 5, 1, 1}));
  EXPECT_EQ(ShapeOf({{5, 2, 4}, {2, 3}}, "CTCGreedyDecoder"), (Shape{1, 2, 1, 1}));
  EXPECT_EQ(ShapeOf({{2, 2, 4}, {2, 2}}, "CTCGreedyDecoder"), (Shape{2, 2, 1, 1}));
  EXPECT_THAT(ErrorOf({{5, 2, 4}, {3, 3}}, "CTCGreedyDecoder"), HasSubstr("the labels must be [2,length]"));
}

TEST(SequenceTest, TimeMistakes) {
  EXPECT_THAT(ErrorOf({}, "ContinuationIndicator", "continuation_indicator_param { time_step: 3 }"),
              HasSubstr("batch_size must be given and at least 1"));
  EXPECT_EQ(ShapeOf({}, "ContinuationIndicator", "continuation_indicator_param { time_step: 1 batch_size: 3 }"),
            (Shape{1, 3}));
  EXPECT_THAT(ErrorOf({{4, 2}}, "Reverse", "reverse_param { axis: 2 }"), HasSubstr("reverse_param.axis"));
  EXPECT_THAT(ErrorOf({{4, 2}, {3}}, "ReverseTime"), HasSubstr("there must be 2 lengths"));
  EXPECT_THAT(ErrorOf({{4, 2}}, "Transpose", "transpose_param { dim: 1 }"), HasSubstr("each of the 2 axes"));
  EXPECT_THAT(ErrorOf({{4, 2}}, "Transpose", "transpose_param { dim: 1 dim: 1 }"), HasSubstr("names axis 1 twice"));
}

TEST(SequenceTest, ConvLstmMistakes) {
  const std::string fields = "lstm_conv_param { num_output: 3 kernel_size: 3 pad: 1 }";
  EXPECT_EQ(ShapeOf({{4, 2, 5, 6, 7}, {4, 2}}, "ConvLSTM", fields), (Shape{4, 2, 3, 6, 7}));
  EXPECT_THAT(ErrorOf({{4, 2, 5, 6, 7}, {4, 2}}, "ConvLSTM"), HasSubstr("given once for x and h, or once each"));
  EXPECT_THAT(ErrorOf({{4, 2, 5, 6}, {4, 2}}, "ConvLSTM", fields), HasSubstr("[steps,streams,channels,height,width]"));
  EXPECT_THAT(ErrorOf({{4, 2, 5, 6, 7}, {4, 3}}, "ConvLSTM", fields), HasSubstr("cont must be [4,2]"));
  EXPECT_THAT(ErrorOf({{4, 2, 5, 6, 7}, {4, 2}}, "ConvLSTM", "lstm_conv_param { num_output: 3 kernel_size: 3 }"),
              HasSubstr("pad must be dilation * (kernel_size - 1) / 2, found pad 0"));
  EXPECT_THAT(ErrorOf({{4, 2, 5, 6, 7}, {4, 2}}, "ConvLSTM", fields + " recurrent_param { expose_hidden: true }"),
              HasSubstr("with expose_hidden takes 4 or 5 bottoms, found 2"));
  EXPECT_THAT(ErrorOf({{4, 2, 5, 6, 7}, {4, 2}}, "ConvLSTM", fields + " lstm_debug_param { axis_hadamard: 4 }"),
              HasSubstr("axis_hadamard and num_axes_hadamard"));
}

TEST(SequenceTest, FieldMistakes) {
  EXPECT_THAT(ErrorOf({{1, 3, 4, 5}, {1, 3, 4, 5}, {1, 2, 4, 5}}, "MultiStageMeanfield"),
              HasSubstr("the image must be [1,3,4,5]"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 5}, {1, 2, 4, 5}, {1, 3, 4, 5}}, "MultiStageMeanfield"),
              HasSubstr("the first scores must be those of the unary scores"));
  const std::vector<std::vector<int64_t>> shapes{{1, 3, 4, 5}, {1, 3, 4, 5}, {1, 3, 4, 5}};
  EXPECT_THAT(ErrorOf(shapes, "MultiStageMeanfield", "multi_stage_meanfield_param { theta_beta: 0 }"),
              HasSubstr("theta_beta must be above 0"));
  EXPECT_THAT(ErrorOf(shapes, "MultiStageMeanfield", "multi_stage_meanfield_param { num_iterations: 0 }"),
              HasSubstr("num_iterations must be from 1"));
  EXPECT_THAT(
      ErrorOf(shapes, "MultiStageMeanfield", "multi_stage_meanfield_param { spatial_filter_weights_str: \"3 3\" }"),
      HasSubstr("a number for each of the 3 classes, found 2"));
}

TEST(SequenceTest, FilteredConstantsStayConstant) {
  const BuiltNet net = BuildText(Layer({{1, 2, 4, 5}, {1, 2, 4, 5}, {1, 3, 4, 5}}, "MultiStageMeanfield",
                                       "multi_stage_meanfield_param { theta_beta: 2 }"));
  // If all scores are equal, each class has probability 1/2 everywhere: weights 1 and compatibility -1 add 2 halves.
  Feeds feeds;
  for (int i = 0; i < 3; ++i)
    feeds["l/" + std::to_string(i)] = i < 2 ? std::vector<double>{1, 0, 0, 1} : std::vector<double>{-1, 0, 0, -1};
  for (int i = 0; i < 60; ++i) feeds["c"].push_back(0.1 * (i % 7));
  EXPECT_THAT(TopValues(net, feeds, "y"), Each(testing::DoubleNear(1, 1e-6)));
}

TEST(SequenceTest, VideoMistakes) {
  EXPECT_THAT(ErrorOf({{1, 3, 4, 5}, {1, 1, 4, 5}}, "FlowWarp"), HasSubstr("the flow must be [1,2,4,5]"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 5}}, "SpatialWta", "spatial_wta_param { kernel_size: 5 }"),
              HasSubstr("the window must lie inside"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 5}}, "SpatialWta", "spatial_wta_param { global_wta: true stride: 2 }"),
              HasSubstr("global_wta takes the whole image"));
  EXPECT_THAT(ErrorOf({{1, 3, 4, 5}}, "DenseBlock", "denseblock_param { filter_H: 5 }"), HasSubstr("3x3"));
  EXPECT_THAT(ErrorOf({{1, 3, 2, 4, 5}, {1, 2, 2, 4, 5}}, "VoxelSoftmaxLoss"), HasSubstr("the truth must be"));
}

// As a net's file is read.
Shape UpgradedShapeOf(const std::vector<std::vector<int64_t>>& shapes, const std::string& type,
                      const std::string& fields) {
  NetParameter net;
  ParseText(Layer(shapes, type, fields), "net.prototxt", net);
  EXPECT_TRUE(UpgradeNet(net, "net.prototxt"));
  const BuiltNet built = BuildNet(net, NetOptions());
  return built.graph.shape(built.tops.at("y"));
}

TEST(SequenceTest, VolumesUnderTheForksNames) {
  const std::vector<std::vector<int64_t>> clip{{1, 2, 8, 9, 9}};
  EXPECT_EQ(UpgradedShapeOf(clip, "Pooling3D", "pooling3d_param { kernel_size: 3 stride: 2 kernel_l: 2 stride_l: 2 }"),
            (Shape{1, 2, 4, 4, 4}));
  EXPECT_EQ(UpgradedShapeOf(clip, "Pooling3D",
                            "pooling3d_param { kernel_size: 3 stride: 2 kernel_depth: 1 temporal_stride: 1 }"),
            (Shape{1, 2, 8, 4, 4}));
  EXPECT_EQ(UpgradedShapeOf({{1, 2, 8, 8, 8}}, "PoolingND", "pooling_nd_param { kernel_size: 2 stride: 2 }"),
            (Shape{1, 2, 4, 4, 4}));
  EXPECT_EQ(UpgradedShapeOf(clip, "Convolution3D",
                            "convolution3d_param { num_output: 4 kernel_size: 3 kernel_depth: 1 stride: 2 }"),
            (Shape{1, 4, 8, 4, 4}));
}

}  // namespace
}  // namespace moka
