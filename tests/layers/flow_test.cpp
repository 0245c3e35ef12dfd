// FlowNet's layers: shapes, what is not known, and mistakes. Their values are in tests/golden/layers_flow.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "one_layer.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::NanSensitiveDoubleNear;

const double kUnknown = std::nan("");

TEST(FlowTest, CorrelationHasAChannelADisplacement) {
  // FlowNetC's.
  EXPECT_EQ(ShapeOf({{1, 4, 48, 64}, {1, 4, 48, 64}}, "Correlation",
                    "correlation_param { pad: 20 kernel_size: 1 max_displacement: 20 stride_1: 1 stride_2: 2 }"),
            (Shape{1, 21 * 21, 48, 64}));
  const std::string row = "correlation_param { pad: 40 kernel_size: 1 max_displacement: 40 single_direction: ";
  EXPECT_EQ(ShapeOf({{1, 4, 8, 64}, {1, 4, 8, 64}}, "Correlation1D", row + "0 }"), (Shape{1, 81, 8, 64}));
  EXPECT_EQ(ShapeOf({{1, 4, 8, 64}, {1, 4, 8, 64}}, "Correlation1D", row + "-1 }"), (Shape{1, 41, 8, 64}));
}

TEST(FlowTest, CorrelationMistakes) {
  const auto error = [](const std::string& fields, std::vector<int64_t> second = {1, 2, 4, 5}) {
    return ErrorOf({{1, 2, 4, 5}, std::move(second)}, "Correlation", "correlation_param { " + fields + " }");
  };
  EXPECT_EQ(error("kernel_size: 1 max_displacement: 1"), "built");
  EXPECT_THAT(error("kernel_size: 2 max_displacement: 1"), HasSubstr("odd and below 1024, found 2"));
  EXPECT_THAT(error("max_displacement: 1"), HasSubstr("kernel_size must be given"));
  EXPECT_THAT(error("kernel_size: 1"), HasSubstr("max_displacement must be given"));
  EXPECT_THAT(error("kernel_size: 1 max_displacement: 2"), HasSubstr("leave no place of 4 padded pixels"));
  EXPECT_THAT(error("kernel_size: 1 max_displacement: 1 stride_1: 0"), HasSubstr("must be from 1"));
  EXPECT_THAT(error("kernel_size: 1 max_displacement: 1 single_direction: 1"), HasSubstr("is Correlation1D's"));
  EXPECT_THAT(error("kernel_size: 1 max_displacement: 1", {1, 2, 4, 6}), HasSubstr("both bottoms must have one shape"));
  EXPECT_THAT(error("kernel_size: 1 max_displacement: 4294967295"), HasSubstr("at most 1024"));
}

TEST(FlowTest, MeansLeaveOutWhatIsUnknown) {
  // Each pixel of the result weighs its corner's two columns 1 and 0.5, in both rows alike.
  const BuiltNet net =
      BuildText(Layer({{1, 1, 2, 3}}, "Downsample", "downsample_param { top_height: 2 top_width: 2 }"));
  EXPECT_THAT(TopValues(net, {{"a", {1, kUnknown, 4, kUnknown, 2, kUnknown}}}, "y"),
              ElementsAre(NanSensitiveDoubleNear(1, 1e-12), NanSensitiveDoubleNear(4, 1e-12),
                          NanSensitiveDoubleNear(kUnknown, 0), NanSensitiveDoubleNear(kUnknown, 0)));
  // If the sizes are equal, the top is the bottom.
  const BuiltNet same =
      BuildText(Layer({{1, 1, 1, 2}}, "Downsample", "downsample_param { top_height: 1 top_width: 2 }"));
  EXPECT_THAT(TopValues(same, {{"a", {3, 5}}}, "y"), ElementsAre(3, 5));
}

TEST(FlowTest, LossesLeaveOutWhatIsUnknown) {
  const Feeds feeds = {{"a", {1, kUnknown, 3, -1}}, {"b", {0.5, 2, kUnknown, 1}}};
  const auto loss = [&](const std::string& fields) {
    return TopValues(BuildText(Layer({{1, 1, 2, 2}, {1, 1, 2, 2}}, "L1Loss", "l1_loss_param { " + fields + " }")),
                     feeds, "y")[0];
  };
  EXPECT_NEAR(loss("plateau: 0"), 2.5, 1e-12);
  EXPECT_NEAR(loss("plateau: 1"), 2, 1e-12);
  EXPECT_NEAR(loss("normalize_by_num_entries: true"), 2.5 / 2, 1e-12);
  EXPECT_NEAR(loss("l2_per_location: true epsilon: 0.25"), std::sqrt(0.5) + std::sqrt(4.25) + 2 * 0.5, 1e-12);
}

TEST(FlowTest, ResizingMistakes) {
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}}, "Resample"), HasSubstr("the size must be given by a second bottom"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}}, "Resample", "resample_param { height: 2 width: 2 type: AREA }"),
              HasSubstr("type is NEAREST, LINEAR or CUBIC"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}}, "Downsample", "downsample_param { top_height: 1 top_width: 3 }"),
              HasSubstr("sides have two pixels at least"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}}, "Accum", "accum_param { have_reference: true }"),
              HasSubstr("have_reference needs a bottom before the reference"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}, {2, 2, 4, 5}}, "Accum"), HasSubstr("all bottoms must have one batch"));
  EXPECT_EQ(ShapeOf({{1, 2, 4, 5}, {1, 3, 6, 2}}, "Accum", ""), (Shape{1, 5, 6, 5}));
}

TEST(FlowTest, OtherMistakes) {
  EXPECT_THAT(ErrorOf({{4, 5}}, "ChannelNorm"), HasSubstr("must be [N,C,H,W], found [4,5]"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}}, "Mean", "mean_param { value: 1 }"), HasSubstr("ADD or SUBTRACT"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}}, "Mean", "mean_param { operation: ADD }"), HasSubstr("value must be given"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}}, "Mean", "mean_param { operation: ADD file: \"mean\" }"),
              HasSubstr("mean images are not supported"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 5}}, "Mean", "mean_param { operation: ADD value: 1 value: 2 value: 3 }"),
              HasSubstr("the 2 channels must be a multiple of the 3 values"));
}

// A vector of zeros has no direction and no slope.
TEST(FlowTest, NormOfNothing) {
  const BuiltNet net = BuildText(Layer({{1, 2, 1, 2}}, "ChannelNorm", ""));
  EXPECT_THAT(TopValues(net, {{"a", {3, 0, 4, 0}}}, "y"), ElementsAre(5, 0));
}

}  // namespace
}  // namespace moka
