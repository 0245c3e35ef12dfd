// Losses of metric, ranking and detection nets: what the goldens do not cover, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "one_layer.h"
#include "proto/nets/net_file.h"
#include "proto/weights/weights.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LossTest, AllWeighOneUnlessToldOtherwise) {
  const std::vector<std::pair<std::string, std::vector<std::vector<int64_t>>>> losses = {
      {"HingeLoss", {{2, 3}, {2}}},
      {"MultinomialLogisticLoss", {{2, 3}, {2}}},
      {"InfogainLoss", {{2, 3}, {2}, {3, 3}}},
      {"ContrastiveLoss", {{2, 3}, {2, 3}, {2}}},
      {"TripletLoss", {{2, 3}, {2, 3}, {2, 3}}},
      {"L1Loss", {{2, 3}, {2, 3}}},
      {"SmoothL1Loss", {{2, 3}, {2, 3}}},
      {"SmoothL1LossOHEM", {{2, 3}, {2, 3}}},
      {"SoftmaxWithLossOHEM", {{2, 3}, {2}}},
  };
  for (const auto& [type, shapes] : losses) {
    SCOPED_TRACE(type);
    const BuiltNet net = BuildText(Layer(shapes, type, "", {}));
    ASSERT_EQ(net.graph.shape(net.loss), Shape{});
    const BuiltNet halved = BuildText(Layer(shapes, type, "loss_weight: 0.5"));
    const Feeds feeds{
        {"a", {0.1, 0.2, 0.7, 0.6, 0.3, 0.1}}, {"b", {1, 0, 0, 0, 0, 0}}, {"c", {1, 0, 0, 0, 1, 0, 0, 0, 1}}};
    Feeds given;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::string name(1, static_cast<char>('a' + static_cast<int>(i)));
      std::vector<double> values = feeds.at(name);
      int64_t count = 1;
      for (const int64_t dim : shapes[i]) count *= dim;
      values.resize(static_cast<size_t>(count));
      given[name] = values;
    }
    const double whole = Evaluate(net.graph, given, {net.loss})[0].values[0];
    EXPECT_GT(whole, 0);
    EXPECT_NEAR(Evaluate(halved.graph, given, {halved.loss})[0].values[0], whole / 2, 1e-9);
  }
}

TEST(LossTest, BottomsThatDoNotFit) {
  for (const char* type : {"HingeLoss", "MultinomialLogisticLoss"}) {
    EXPECT_THAT(ErrorOf({{4, 3}, {3}}, type), HasSubstr("\"b\" [3] has 3 labels but bottom \"a\" [4,3] has 4 items"));
  }
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 2}}, "L1Loss"), HasSubstr("must have one batch and one count"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 3}, {2, 6}}, "SmoothL1Loss"),
              HasSubstr("\"a\" [4,3] and \"c\" [2,6] must have one batch and one count"));
  EXPECT_THAT(ErrorOf({{4, 3, 2, 1}, {4, 3, 2, 1}, {4}}, "ContrastiveLoss"),
              HasSubstr("\"a\" must be vectors [N,C], found [4,3,2,1]"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 2}, {4}}, "ContrastiveLoss"), HasSubstr("must have one shape"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 3}, {5}}, "ContrastiveLoss"), HasSubstr("each of the 4 pairs, found [5]"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 3}, {3, 4}}, "TripletLoss"), HasSubstr("must have one shape"));
  EXPECT_THAT(ErrorOf({{4}, {4}}, "SmoothL1LossOHEM"), HasSubstr("the bottom must be [N,C,..], found [4]"));
  EXPECT_THAT(ErrorOf({{4, 3}, {5}}, "SoftmaxWithLossOHEM"), HasSubstr("has 5 labels"));
}

TEST(LossTest, FieldsThatAreRefused) {
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 3}}, "L1Loss", "l1_loss_param { epsilon: -1 l2_per_location: true }"),
              HasSubstr("epsilon must not be negative, found -1"));
  EXPECT_THAT(ErrorOf({{4, 3}}, "L1Loss", "l1_loss_param { plateau: -2 }"),
              HasSubstr("plateau must not be negative, found -2"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 3}}, "SmoothL1Loss", "smooth_l1_loss_param { sigma: 0 }"),
              HasSubstr("sigma must be above 0, found 0"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4}, {3, 3}}, "InfogainLoss", "loss_param { normalize: true }"),
              HasSubstr("InfogainLoss has no normalize; give normalization"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 3}, {4}}, "ContrastiveLoss", "contrastive_loss_param { margin: inf }"),
              HasSubstr("margin must be a finite number"));
}

TEST(LossTest, PairsThatCoincideHaveNoGradient) {
  const BuiltNet net = BuildText(Layer({{2, 2}, {2, 2}, {2}}, "ContrastiveLoss", ""));
  const Feeds feeds{{"a", {1, 2, 0, 0}}, {"b", {1, 2, 0, 0.5}}, {"c", {0, 0}}};
  EXPECT_THAT(TopValues(net, feeds, "y"), ElementsAre((1 + 0.25) / 4));
}

TEST(LossTest, InfogainMatrixFromAFile) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "loss_test_infogain.binaryproto";
  const std::vector<float> h = {1, 0, 0.5F, 0, 1, 0, 0.25F, 0, 1};
  WriteBlobProtoFile(path, Shape{1, 1, 3, 3}, h);
  const std::string source = "infogain_loss_param { source: \"" + path.string() + "\" }";
  const Feeds feeds{{"a", {0.1, 0.2, 0.7, 0.6, 0.3, 0.1}}, {"b", {2, 0}}, {"c", {h.begin(), h.end()}}};
  const BuiltNet from_file = BuildText(Layer({{2, 3}, {2}}, "InfogainLoss", source));
  const BuiltNet from_bottom = BuildText(Layer({{2, 3}, {2}, {3, 3}}, "InfogainLoss", ""));
  const Feeds without{{"a", feeds.at("a")}, {"b", feeds.at("b")}};
  EXPECT_EQ(TopValues(from_file, without, "y"), TopValues(from_bottom, feeds, "y"));
  EXPECT_THAT(ErrorOf({{2, 4}, {2}}, "InfogainLoss", source),
              HasSubstr("the infogain matrix must be 4 x 4, found [1,1,3,3]"));
  std::filesystem::remove(path);
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, "InfogainLoss", source), HasSubstr("net.prototxt:"));
  // A net that is looked at without its data builds without the file.
  NetOptions looking;
  looking.feeds_python_data = true;
  const NetParameter net = NetFromText(Layer({{2, 3}, {2}}, "InfogainLoss", source), "net.prototxt");
  EXPECT_THAT(TopValues(BuildNet(net, looking), without, "y"), ElementsAre(0.0));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, "InfogainLoss"), HasSubstr("the infogain matrix must be given"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}, {3, 2}}, "InfogainLoss"), HasSubstr("\"c\" must be 3 x 3, found [3,2]"));
}

TEST(LossTest, CenterLossMistakes) {
  EXPECT_THAT(ErrorOf({{4, 3}, {4}}, "CenterLoss"), HasSubstr("num_output, the number of classes, must be given"));
  EXPECT_THAT(ErrorOf({{4, 3}, {3}}, "CenterLoss", "center_loss_param { num_output: 2 }"),
              HasSubstr("\"b\" must have 4 labels, found [3]"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4}}, "CenterLoss", "center_loss_param { num_output: 2 distance_type: \"L1\" }"),
              HasSubstr("distance_type must be \"L2\", found \"L1\""));
}

TEST(LossTest, MarginInnerProductCountsOnlyTrainingSteps) {
  const std::string fields = "margin_inner_product_param { num_output: 3 type: QUADRUPLE iteration: 7 }";
  const BuiltNet train = BuildText(Layer({{4, 2}, {4}}, "MarginInnerProduct", fields));
  ASSERT_EQ(train.blobs.size(), 2U);
  EXPECT_EQ(train.blobs[1].filler.value(), 7);
  EXPECT_EQ(train.blobs[1].role, ParameterRole::kStatistic);
  EXPECT_EQ(train.graph.assignments().size(), 1U);
  EXPECT_TRUE(BuildText(Layer({{4, 2}, {4}}, "MarginInnerProduct", fields), TEST).graph.assignments().empty());
  EXPECT_THAT(ErrorOf({{4, 2}, {4}}, "MarginInnerProduct"), HasSubstr("num_output must be given and at least 1"));
  EXPECT_THAT(ErrorOf({{4, 2}, {5}}, "MarginInnerProduct", fields), HasSubstr("must have 4 labels, found [5]"));
  EXPECT_THAT(
      ErrorOf({{4, 2}, {4}}, "MarginInnerProduct", "margin_inner_product_param { num_output: 3 lambda_min: -1 }"),
      HasSubstr("lambda_min must not be negative, found -1"));
}

TEST(LossTest, MarginInnerProductOfNothingIsFinite) {
  const BuiltNet net = BuildText(
      Layer({{2, 2}, {2}}, "MarginInnerProduct", "margin_inner_product_param { num_output: 3 type: TRIPLE }"));
  for (const double y : TopValues(net, {{"a", {0, 0, 1, 1}}, {"b", {0, 1}}}, "y")) EXPECT_TRUE(std::isfinite(y)) << y;
}

TEST(LossTest, BoxAnnotatorMistakes) {
  const auto error = [](const std::vector<std::vector<int64_t>>& shapes, const std::string& fields) {
    return ErrorsOf(Layer(shapes, "BoxAnnotatorOHEM", fields, {"y", "z"}));
  };
  const std::string fields = "box_annotator_ohem_param { roi_per_img: 2 }";
  EXPECT_EQ(error({{6, 5}, {6, 1, 1, 1}, {6}, {6, 8}}, fields), "built");
  EXPECT_THAT(error({{6, 5}, {6}, {6}, {6, 8}}, ""), HasSubstr("roi_per_img must be given and at least 1"));
  EXPECT_THAT(error({{6, 4}, {6}, {6}, {6, 8}}, fields), HasSubstr("\"a\" must be regions [N,5,..], found [6,4]"));
  EXPECT_THAT(error({{6, 5}, {6, 2}, {6}, {6, 8}}, fields), HasSubstr("\"b\" must have one value a region"));
  EXPECT_THAT(error({{6, 5}, {6}, {6}, {5, 8}}, fields), HasSubstr("\"d\" must be box weights [6,C,..]"));
}

}  // namespace
}  // namespace moka
