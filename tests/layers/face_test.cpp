// Layers of faces and people, YOLO v1's and their kin: shapes and messages. Their values are in
// tests/golden/layers_faces.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "net_run.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::Each;
using testing::HasSubstr;

TEST(FaceTest, IdentitiesMistakes) {
  const auto cosines = [](const std::vector<std::vector<int64_t>>& shapes, const std::string& fields) {
    return ErrorsOf(Layer(shapes, "CosinL2Normalize", "cosin_loss_param { " + fields + " }"));
  };
  EXPECT_EQ(cosines({{4, 3}, {4}}, "num_output: 5"), "built");
  EXPECT_THAT(cosines({{4, 3}, {4}}, ""), HasSubstr("num_output must be given"));
  EXPECT_THAT(cosines({{4, 3}, {3}}, "num_output: 5"), HasSubstr("must have 4 labels, found [3]"));
  EXPECT_THAT(cosines({{4, 3}, {4}}, "num_output: 5 axis: 0"), HasSubstr("axis must be 1"));
  EXPECT_THAT(ErrorsOf(Layer({{5, 3}, {5}}, "Identity2Verify", "top: \"b\" top: \"s\"")),
              HasSubstr("an even number of items, found [5,3]"));
}

TEST(FaceTest, TripletsAreOfTheirLabels) {
  const BuiltNet net = BuildText(Layer({{6, 2}, {2}}, "SampleTriplet", "sample_triplet_param { alpha: 100 }"), TRAIN);
  ASSERT_EQ(net.graph.shape(net.tops.at("y")), (Shape{2, 3, 1, 1}));
  const std::vector<double> x = {0, 0, 1, 0, 0, 1, 3, 3, 3, 4, 4, 3};
  const std::vector<double> y = TopValues(net, {{"a", x}, {"b", {3, 3}}, {"random_key", {5}}}, "y");
  // The first label's pairs come first; any of the other's rows is near enough.
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 1);
  EXPECT_GE(y[2], 3);
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], 2);
  EXPECT_GE(y[5], 3);
  const BuiltNet strict =
      BuildText(Layer({{6, 2}, {2}}, "SampleTriplet", "sample_triplet_param { alpha: -0.5 }"), TRAIN);
  EXPECT_THAT(TopValues(strict, {{"a", x}, {"b", {3, 3}}, {"random_key", {5}}}, "y"), Each(-1));
  EXPECT_THAT(ErrorsOf(Layer({{6, 2}, {2, 4}}, "TripletLoss", "")), HasSubstr("must be triplets [T,3], found [2,4]"));
}

TEST(FaceTest, AttributesMistakes) {
  const auto evaluate = [](int64_t columns, const std::string& fields) {
    return ErrorsOf(Layer({{2, columns}, {2, 17}}, "FaceAttriEvaluate", "face_evaluate_param { " + fields + " }"));
  };
  EXPECT_EQ(evaluate(17, "facetype: FACEATTRIBUTE"), "built");
  EXPECT_THAT(evaluate(15, "facetype: FACEATTRIBUTE"), HasSubstr("C at least 17, found [2,15]"));
  EXPECT_THAT(evaluate(17, ""), HasSubstr("facetype must be given"));
  EXPECT_THAT(evaluate(17, "facetype: FACE_ANGLE"), HasSubstr("facetype must be given and FACEATTRIBUTE"));
}

TEST(FaceTest, DetectorsMistakes) {
  const auto loss = [](int64_t channels, int64_t columns, const std::string& fields) {
    return ErrorsOf(Layer({{1, channels, 4, 4}, {1, 1, 2, columns}}, "CenterGridLoss",
                          "center_object_loss_param { bias_num: 1 net_height: 32 " + fields + " }"));
  };
  EXPECT_EQ(loss(5, 8, "num_class: 1 bias_scale: 16"), "built");
  EXPECT_EQ(loss(16, 19, "num_class: 2 class_type: SOFTMAX has_lm: true bias_scale: 16"), "built");
  EXPECT_THAT(loss(5, 8, "num_class: 2 bias_scale: 16"), HasSubstr("num_class must be 1 (SIGMOID), found 2"));
  EXPECT_THAT(loss(6, 8, "num_class: 1 bias_scale: 16"), HasSubstr("must be [N,5,H,W], found [1,6,4,4]"));
  EXPECT_THAT(loss(5, 19, "num_class: 1 bias_scale: 16"), HasSubstr("rows of 8 numbers"));
  EXPECT_THAT(loss(5, 8, "num_class: 1"), HasSubstr("bias_scale must be given once"));
  EXPECT_THAT(loss(15, 19, "num_class: 1 bias_scale: 16 has_lm: true"), HasSubstr("go with class_type: SOFTMAX"));
  const auto peaks = [](int64_t places, int64_t scores, const std::string& fields) {
    return ErrorsOf(Layer({{1, places, 4, 4}, {1, scores, 4, 4}}, "CenternetDetectionOutput",
                          "detection_output_param { num_classes: 2 " + fields + " }"));
  };
  EXPECT_EQ(peaks(4, 1, ""), "built");
  EXPECT_THAT(peaks(4, 1, "has_lm: true"), HasSubstr("must be [N,14,H,W], found [1,4,4,4]"));
  EXPECT_THAT(peaks(4, 2, ""), HasSubstr("a score for each class but the background"));
}

TEST(FaceTest, ABatchWithoutFacesTeachesNothing) {
  const BuiltNet net = BuildText(Layer({{1, 5, 2, 2}, {1, 1, 2, 8}}, "CenterGridLoss",
                                       "center_object_loss_param { bias_num: 1 net_height: 32 bias_scale: 16 }"));
  EXPECT_THAT(TopValues(net, {{"a", std::vector<double>(20, 0.5)}, {"b", std::vector<double>(16, -1)}}, "y"),
              testing::ElementsAre(0));
}

TEST(FaceTest, YoloV1Mistakes) {
  const auto loss = [](int64_t values, int64_t labels, const std::string& fields) {
    return ErrorsOf(Layer({{2, values}, {2, labels}}, "DetectionLoss", "detection_loss_param { " + fields + " }"));
  };
  EXPECT_EQ(loss(1470, 343, "side: 7 num_class: 20 num_object: 2"), "built");
  EXPECT_THAT(loss(1470, 150, "side: 7"), HasSubstr("must be [2,343], 7 numbers a square, found [2,150]"));
  EXPECT_THAT(loss(1470, 343, "side: 7 num_class: 19"), HasSubstr("must be [N,1421]"));
  EXPECT_THAT(loss(1470, 343, ""), HasSubstr("cls_num must be given, or for YOLO v1 side"));
  EXPECT_THAT(loss(1470, 343, "side: 0"), HasSubstr("side must be from 1"));
  const BuiltNet net = BuildText(Layer({{1, 1470}, {1, 343}}, "EvalDetection", ""), TEST);
  EXPECT_EQ(net.graph.shape(net.tops.at("y")), (Shape{1, 20 + 7 * 7 * 2 * 4}));
}

TEST(FaceTest, ExcitationMistakes) {
  EXPECT_THAT(ErrorsOf(Layer({{2, 3, 4, 4}, {2, 1, 3, 4}, {2, 4, 4}}, "AssistedExcitation", "")),
              HasSubstr("lists of 5 numbers for each of the 2 images"));
  EXPECT_THAT(ErrorsOf(Layer({{2, 3, 4, 4}, {2, 1, 3, 5}, {2, 4, 3}}, "AssistedExcitation", "")),
              HasSubstr("must be [2,4,4], the mean of the channels"));
  EXPECT_THAT(ErrorsOf(Layer({{2, 3, 4, 4}, {2, 1, 3, 5}, {2, 4, 4}}, "AssistedExcitation",
                             "assisted_excitation_param { max_iter: -1 }")),
              HasSubstr("max_iter must not be negative"));
}

TEST(FaceTest, RegionsBoxesHaveTwoNames) {
  EXPECT_EQ(ErrorsOf(Layer({{1, 21, 2, 2}}, "Region", "region_param { classes: 2 num: 3 }")), "built");
  EXPECT_THAT(ErrorsOf(Layer({{1, 21, 2, 2}}, "Region", "region_param { num: 3 boxes_of_each_grid: 5 }")),
              HasSubstr("num is another name of boxes_of_each_grid"));
}

}  // namespace
}  // namespace moka
