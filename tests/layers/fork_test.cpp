// Layers of forks for classification, segmentation of volumes and faces, and of nets translated from TensorFlow: what
// the goldens do not cover, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "one_layer.h"
#include "proto/nets/filler.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ForkTest, MovesCheckTheirSizes) {
  EXPECT_THAT(ErrorOf({{2, 3, 1}}, "Squeeze", "squeeze_param { axis: 1 }"), HasSubstr("axis 1 of the bottom [2,3,1]"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Squeeze", "squeeze_param { axis: 4 }"), HasSubstr("squeeze_param.axis[0] is 4"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Pad", "pad_param { paddings: 1 }"), HasSubstr("give two for each of its 2 axes"));
  EXPECT_THAT(ErrorOf({{1, 6, 2, 2}}, "DepthToSpace", "depth_to_space_param { block_size: 2 data_format: \"NCHW\" }"),
              HasSubstr("do not divide the 6 channels"));
  EXPECT_THAT(ErrorOf({{1, 4, 2, 2}}, "DepthToSpace", "depth_to_space_param { block_size: 0 data_format: \"NCHW\" }"),
              HasSubstr("do not divide"));
  EXPECT_THAT(ErrorOf({{1, 4, 2, 2}}, "DepthToSpace", "depth_to_space_param { block_size: 2 data_format: \"X\" }"),
              HasSubstr("data_format must be"));
  EXPECT_THAT(ErrorOf({{1, 6, 2, 2}}, "Reshape", "reshape_param { pixelshuffler: 2 }"), HasSubstr("do not divide"));
  EXPECT_THAT(ErrorOf({{3, 4, 4, 1}}, "BatchToSpaceND", "batch_to_space_nd_param { block_shape: 2 crops: 0 crops: 0 }"),
              HasSubstr("does not divide the batch"));
  EXPECT_THAT(ErrorOf({{2, 2, 4, 1}}, "BatchToSpaceND", "batch_to_space_nd_param { block_shape: 2 crops: 2 crops: 2 }"),
              HasSubstr("the crops leave nothing"));
  EXPECT_THAT(
      ErrorOf({{2, 3, 4, 1}}, "SpaceToBatchND", "space_to_batch_nd_param { block_shape: 2 paddings: 0 paddings: 0 }"),
      HasSubstr("does not divide the 3 elements of axis 1"));
  EXPECT_THAT(ErrorOf({{2, 4, 4, 1}}, "SpaceToBatchND", "space_to_batch_nd_param { block_shape: 2 }"),
              HasSubstr("paddings must be given twice"));
}

TEST(ForkTest, SumsAndProductsBroadcastFromTheLastAxis) {
  EXPECT_EQ(ShapeOf({{2, 1, 4}, {3, 1}}, "Mul"), (Shape{2, 3, 4}));
  EXPECT_EQ(ShapeOf({{}, {3, 2}}, "Add"), (Shape{3, 2}));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, "Add"), HasSubstr("must agree on axis -1"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Mul"), HasSubstr("needs the factor's shape"));
}

TEST(ForkTest, ResizingNeedsASize) {
  const std::string field = "resize_bilinear_param { data_format: \"NCHW\" ";
  EXPECT_EQ(ShapeOf({{1, 2, 5, 4}}, "ResizeBilinear", field + "scale_height: 0.5 output_width: 8 }"),
            (Shape{1, 2, 2, 8}));
  EXPECT_THAT(ErrorOf({{1, 2, 5, 4}}, "ResizeBilinear", field + "scale_height: 0.1 }"), HasSubstr("output_height"));
  EXPECT_THAT(ErrorOf({{1, 2, 5, 4}}, "ResizeBilinear", field + "scale_height: inf }"), HasSubstr("output_height"));
  EXPECT_THAT(ErrorOf({{1, 2, 5, 4}}, "ResizeBilinear", field + "output_height: -2 }"), HasSubstr("at least 1"));
  EXPECT_THAT(ErrorOf({{1, 2, 5, 4}}, "ResizeBilinear", field + "align_corners: true half_pixel_centers: true }"),
              HasSubstr("not both"));
  EXPECT_THAT(ErrorOf({{5, 4}}, "ResizeNearestNeighbor"), HasSubstr("four axes"));
}

TEST(ForkTest, SeluDropoutSetsOrKeeps) {
  const BuiltNet net = BuildText(Layer({{200}}, "SeLuDropout", "selu_dropout_param { dropout_ratio: 0.4 }"));
  const double limit = -1.75809934;
  const double a = 1 / std::sqrt(0.6 * (1 + limit * limit * 0.4));
  const double b = -a * 0.4 * limit;
  int dropped = 0;
  for (const double y : TopValues(net, {{"a", std::vector<double>(200, 0.5)}, {"random_key", {7}}}, "y")) {
    const bool is_kept = std::abs(y - (a * 0.5 + b)) < 1e-6;
    EXPECT_TRUE(is_kept || std::abs(y - (a * limit + b)) < 1e-6) << y;
    dropped += is_kept ? 0 : 1;
  }
  EXPECT_GT(dropped, 50);
  EXPECT_LT(dropped, 110);
  EXPECT_THAT(ErrorOf({{2}}, "SeLuDropout", "selu_dropout_param { dropout_ratio: 1 }"), HasSubstr("[0, 1)"));
}

TEST(ForkTest, DilatedPoolingMistakes) {
  EXPECT_THAT(ErrorOf({{1, 1, 4, 4}}, "Pooling", "pooling_param { kernel_size: 3 dilation: 2 }"),
              HasSubstr("the kernel 3 with dilation 2 is larger than axis 2"));
  EXPECT_THAT(ErrorOf({{1, 1, 6, 6}}, "Pooling", "pooling_param { kernel_size: 2 dilation: 2 stride: 2 }"),
              HasSubstr("must end inside axis 2"));
  EXPECT_EQ(
      ShapeOf({{1, 1, 6, 6}}, "Pooling", "pooling_param { kernel_size: 2 dilation: 2 stride: 2 round_mode: FLOOR }"),
      (Shape{1, 1, 2, 2}));
  EXPECT_THAT(ErrorOf({{1, 1, 6, 6}}, "Pooling", "pooling_param { kernel_size: 2 dilation: 2 pad: 1 }"),
              HasSubstr("takes no pad"));
  EXPECT_THAT(ErrorOf({{1, 1, 6, 6}}, "Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 dilation: 2 }"),
              HasSubstr("MAX and AVE"));
  EXPECT_THAT(ErrorOf({{1, 1, 900, 6}}, "Pooling", "pooling_param { kernel_h: 300 kernel_w: 2 dilation: 2 }"),
              HasSubstr("limited to 64"));
  EXPECT_THAT(ErrorOf({{1, 1, 6, 6}}, "Pooling", "pooling_param { kernel_size: 2 pad: 1 pad_type: 1 }"),
              HasSubstr("pad or pad_type"));
  EXPECT_THAT(ErrorOf({{1, 1, 6, 6}}, "Pooling", "pooling_param { kernel_size: 2 pad_type: 2 }"),
              HasSubstr("pad_type must be 0 or 1"));
  EXPECT_THAT(ErrorOf({{1, 1, 6, 6}}, "Pooling", "pooling_param { pool: SUM kernel_size: 2 }"),
              HasSubstr("SUM is the method of SumPooling"));
}

TEST(ForkTest, SumPoolingMistakes) {
  EXPECT_EQ(ShapeOf({{1, 2, 4, 6}}, "SumPooling", "sum_pooling_param { pool: SUM global_pooling: true }"),
            (Shape{1, 2, 1, 1}));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 6}}, "SumPooling", "sum_pooling_param { kernel_size: 2 }"), HasSubstr("pool: SUM"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 6}}, "SumPooling", "sum_pooling_param { pool: SUM kernel_size: 3 stride: 2 }"),
              HasSubstr("must fill axis 2"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 6}}, "SumPooling", "sum_pooling_param { pool: SUM kernel_size: 2 pad: 1 }"),
              HasSubstr("takes no pad"));
  EXPECT_THAT(ErrorOf({{1, 2}}, "SumPooling", "sum_pooling_param { pool: SUM kernel_size: 2 }"), HasSubstr("[N,C]"));
}

TEST(ForkTest, JoinsAndPaddingsCheckTheirSizes) {
  EXPECT_THAT(ErrorOf({{1, 2, 4, 4}, {1, 2, 3, 4}}, "MergeCrop"), HasSubstr("is smaller than that of the first"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 4}, {1, 3, 4, 4}}, "MergeCrop", "mergecrop_param { operation: ADD }"),
              HasSubstr("and of channels"));
  EXPECT_THAT(ErrorOf({{1, 2, 4}, {1, 2, 4}}, "MergeCrop", "mergecrop_param { forward: 1 forward: 1 forward: 1 }"),
              HasSubstr("is given 3 times for 2 bottoms"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 4}}, "Padding", "padding_param { pad_beg: -2 pad_end: 1 }"),
              HasSubstr("both pad or both crop"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 4}}, "Padding", "padding_param { pad_beg: -2 pad_end: -2 }"), HasSubstr("crop all 4"));
  EXPECT_THAT(ErrorOf({{1, 3, 2, 2}, {1, 1, 2, 2}}, "EltwiseAccuracy", "eltwise_accuracy_param { top_k: 4 }"),
              HasSubstr("from 1 to the 3 classes"));
  EXPECT_EQ(ErrorsOf(InputText("a", {2, 3}) + "layer { name: \"w\" type: \"MatWrite\" bottom: \"a\" }"), "built");
}

TEST(ForkTest, FaceLayersCheckTheirBottoms) {
  EXPECT_THAT(ErrorOf({{2, 3}}, "Normalize", "normalize_param { normalize_type: \"L3\" }"), HasSubstr("L1 or L2"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Normalize", "normalize_param { } norm_param { eps: 1 }"), HasSubstr("norm_param"));
  EXPECT_THAT(ErrorOf({{2, 3}, {4, 2}}, "InnerProduct", "inner_product_param { bias_term: false }"),
              HasSubstr("the weights must be [num_output,3], found [4,2]"));
  EXPECT_THAT(ErrorOf({{2, 3}, {4, 3}}, "InnerProduct"), HasSubstr("bias_term and transpose must be false"));
  EXPECT_THAT(ErrorOf({{2, 3}, {4, 3}}, "InnerProduct", "inner_product_param { bias_term: false num_output: 5 }"),
              HasSubstr("num_output is 5 but the second bottom has 4 rows"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "InnerDistance"), HasSubstr("num_output must be given"));
  EXPECT_THAT(ErrorOf({{2, 3}, {4, 2}}, "InnerDistance"), HasSubstr("the centres must be [N,3]"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "InnerDistance", "inner_distance_param { num_output: 2 distance_type: \"L7\" }"),
              HasSubstr("L1 or L2"));
  EXPECT_THAT(ErrorOf({{2, 3}, {3}}, "ChannelScale"), HasSubstr("one value for each of the 2 positions"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, "ChannelScale", "channel_scale_param { global_scale: true }"),
              HasSubstr("global_scale"));
  EXPECT_THAT(ErrorOf({{2, 3}, {3}}, "LabelSpecificAdd"), HasSubstr("has 3 labels"));
  EXPECT_THAT(
      ErrorOf({{2, 3}, {2}}, "GeneralContrastiveLoss", "general_contrastive_loss_param { add_intra_mae: true }"),
      HasSubstr("add_intra_mae"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, "GeneralTripletLoss", "general_triplet_loss_param { negative_weight: -1 }"),
              HasSubstr("must not be negative"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, "LargeMarginInnerProduct"), HasSubstr("num_output must be given"));
  EXPECT_THAT(ErrorOf({{1, 3}, {1}}, "HashingLoss"), HasSubstr("needs 2 to"));
  EXPECT_THAT(ErrorOf({{2, 3}, {3}}, "HashingLoss"), HasSubstr("labels for 2 items"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 2}}, "MultiSigmoidCrossEntropyLoss"), HasSubstr("one batch and one count"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 2}}, "SigmoidCrossEntropyBalanceLoss"), HasSubstr("one batch and one count"));
}

// If each set has two items, every draw is the same up to its order, so the value is known.
TEST(ForkTest, DiscrepancyOfTwoPairs) {
  const BuiltNet net = BuildText(Layer({{2, 1}, {2, 1}}, "MMDLoss", "mmd_param { kernel_num: 1 }"));
  const double gamma = 12.0 / (2 * (1 + 25 + 36 + 16 + 25 + 1));  // of 0, 1, 5, 6: ordered pairs over their squares
  const auto kernel = [&](double d) { return std::exp(-gamma * d * d); };
  double low = 1e9;
  double high = -1e9;
  for (const double a : {kernel(5) + kernel(5), kernel(6) + kernel(4), kernel(4) + kernel(6)}) {
    low = std::min(low, 2 * (kernel(1) + kernel(1) - a));
    high = std::max(high, 2 * (kernel(1) + kernel(1) - a));
  }
  for (const double key : {1.0, 2.0, 3.0}) {
    const std::vector<double> y = TopValues(net, {{"a", {0, 1}}, {"b", {5, 6}}, {"random_key", {key}}}, "y");
    ASSERT_EQ(y.size(), 1U);
    EXPECT_GE(y[0], low - 1e-9);
    EXPECT_LE(y[0], high + 1e-9);
  }
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 4}}, "MMDLoss"), HasSubstr("one number of features"));
  EXPECT_THAT(ErrorOf({{1, 3}, {2, 3}}, "MMDLoss"), HasSubstr("must have 2 to"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 3}}, "MMDLoss", "mmd_param { kernel_num: 0 }"), HasSubstr("kernel_num"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 3}}, "MMDLoss", "mmd_param { kernel_mul: -1 }"), HasSubstr("above 0"));
}

// Run 1 takes the threshold of run 0, whatever the weights are by then.
TEST(ForkTest, SurgeryKeepsItsThreshold) {
  const BuiltNet net = BuildText(Layer({{1, 3}}, "DNSInnerProduct",
                                       "inner_product_param { num_output: 1 bias_term: false } "
                                       "dns_inner_product_param { gamma: 0 c_rate: 0 }"));
  const Feeds feeds{{"a", {1, 10, 100}}, {"l/0", {1, 3, 6}}, {"l/1", {1, 0, 1}},
                    {"random_key", {3}}, {"l/@runs", {1}},   {"l/@threshold", {4}}};
  EXPECT_THAT(TopValues(net, feeds, "y"), ElementsAre(600));
  Feeds first = feeds;
  first["l/@runs"] = {0};
  EXPECT_THAT(TopValues(net, first, "y"), ElementsAre(600));  // the mean of 1 and 6 is 3.5
  first["l/0"] = {1, 3, 2};
  EXPECT_THAT(TopValues(net, first, "y"), ElementsAre(230));  // of 1 and 2 it is 1.5
}

TEST(ForkTest, ImagesWithoutLabelsSaySo) {
  const std::string data = "layer { name: \"d\" type: \"ImageData\" top: \"data\" image_data_param { batch_size: 4 ";
  EXPECT_THAT(ErrorsOf(data + "} }"), HasSubstr("ImageData takes 2 tops"));
  EXPECT_THAT(ErrorsOf(data + "rate_height: 0.1 label: false } }"), HasSubstr("rate_height"));
  // Where there are clip markers, a batch is of sequences of 16.
  EXPECT_THAT(ErrorsOf(data + "} top: \"label\" top: \"markers\" }"), HasSubstr("must be a multiple of 16"));
}

TEST(ForkTest, FillersOfForks) {
  const auto layer = [](const std::string& filler) {
    return ErrorsOf(
        InputText("a", {2, 3}) +
        "layer { name: \"l\" type: \"InnerProduct\" bottom: \"a\" top: \"y\" inner_product_param { num_output: 2 "
        "bias_filler { " +
        filler + " } } }");
  };
  EXPECT_EQ(layer("type: \"constant\" values: 1 values: 2"), "built");
  EXPECT_THAT(layer("type: \"constant\" values: 1"), HasSubstr("one an element of [2]"));
  EXPECT_THAT(layer("type: \"uniform\" values: 1 values: 2"), HasSubstr("for type constant"));
  FillerParameter filler;
  filler.set_type("gaussian_unitball");
  std::vector<float> values(12);
  FillBlob(filler, {3, 4}, 1, "w", values);
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 4; ++i) sum += std::pow(static_cast<double>(values[4 * row + i]), 2);
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

}  // namespace
}  // namespace moka
