// Forks of single-stage detectors: classes in a tree, shapes, and mistakes. Their values are in
// tests/golden/layers_single_stage.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/text.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::HasSubstr;

Shape TopShape(const std::string& text, Phase phase = TRAIN) {
  const BuiltNet net = BuildText(text, phase);
  return net.graph.shape(net.tops.at("y"));
}

// PriorBox -----------------------------------------------------------------------------------------------------------

std::string PriorOf(const std::string& fields) {
  return Layer({{1, 8, 3, 5}}, "PriorBox", "prior_box_param { img_size: 64 " + fields + " }");
}

TEST(SingleStageTest, DensityMultipliesTheBoxesOfASize) {
  EXPECT_EQ(TopShape(PriorOf("fixed_size: 32 fixed_size: 64 fixed_size: 128 density: 4 density: 2 density: 1")),
            (Shape{1, 2, 15 * (16 + 4 + 1) * 4}));
  EXPECT_EQ(TopShape(PriorOf("fixed_size: 32 density: 2 aspect_ratio: 2")), (Shape{1, 2, 15 * 4 * 3 * 4}));
  EXPECT_EQ(TopShape(PriorOf("min_size: 30 max_size: 60 aspect_ratio: 2 denser_prior_boxes: true")),
            (Shape{1, 2, 15 * 2 * 4 * 4}));
}

TEST(SingleStageTest, PriorMistakes) {
  const auto error = [](const std::string& fields) { return ErrorsOf(PriorOf(fields)); };
  EXPECT_THAT(error("fixed_size: 32"), HasSubstr("density is given 0 times for 1 fixed_sizes"));
  EXPECT_THAT(error("fixed_size: 32 density: 0.5"), HasSubstr("density must be from 1 to 64, found 0.5"));
  EXPECT_THAT(error("fixed_size: 32 density: 1 min_size: 3"), HasSubstr("not both"));
  EXPECT_THAT(error("min_size: 32 density: 1"), HasSubstr("density and fixed_ratio need a fixed_size"));
  EXPECT_THAT(error("fixed_size: 32 density: 1 fixed_ratio: 1 aspect_ratio: 2"), HasSubstr("not both"));
  EXPECT_THAT(error("fixed_size: 32 density: 1 fixed_ratio: 1 fixed_ratio: 2"),
              HasSubstr("fixed_ratio takes one value, found 2"));
  EXPECT_THAT(error("min_size: 32 denser_prior_boxes: true textboxes: true"), HasSubstr("give those of one"));
}

// Polygons -----------------------------------------------------------------------------------------------------------

TEST(SingleStageTest, PolygonsMakeRowsOfFifteen) {
  const auto text = [](const std::string& fields, int64_t numbers) {
    return Layer({{2, 10 * numbers}, {2, 20}, {1, 2, 40}}, "DetectionOutput",
                 "detection_output_param { num_classes: 2 keep_top_k: 7 " + fields + " }");
  };
  const std::string centers = "code_type: CENTER_SIZE ";
  EXPECT_EQ(TopShape(text(centers + "use_polygon: true", 12), TEST), (Shape{1, 1, 14, 15}));
  EXPECT_THAT(ErrorsOf(text(centers + "use_polygon: true", 4), TEST),
              HasSubstr("loc has shape [2,40] but [2,120] is needed"));
  EXPECT_THAT(ErrorsOf(text(centers + "use_polygon: false", 12), TEST), HasSubstr("rotated boxes"));
  EXPECT_THAT(ErrorsOf(text("use_polygon: true", 12), TEST), HasSubstr("use_polygon needs code_type: CENTER_SIZE"));
}

TEST(SingleStageTest, PolygonMistakes) {
  const auto loss = [](const std::string& fields, int64_t width) {
    return ErrorsOf(Layer({{1, 24}, {1, 4}, {1, 2, 8}, {1, 1, 1, width}}, "MultiBoxLoss",
                          "multibox_loss_param { num_classes: 2 code_type: CENTER_SIZE " + fields + " }"));
  };
  EXPECT_EQ(loss("use_polygon: true", 16), "built");
  EXPECT_THAT(loss("use_polygon: true", 8), HasSubstr("truth must be [1,1,rows,16], found [1,1,1,8]"));
  EXPECT_THAT(loss("use_polygon: false", 16), HasSubstr("rotated boxes"));
  EXPECT_THAT(loss("use_polygon: true encode_variance_in_target: true", 16), HasSubstr("use_polygon needs"));
  const auto evaluate = [](const std::string& fields, int64_t width) {
    return ErrorsOf(Layer({{1, 1, 4, width}, {1, 1, 2, 16}}, "DetectionEvaluate",
                          "detection_evaluate_param { num_classes: 2 " + fields + " }"));
  };
  EXPECT_EQ(evaluate("use_polygon: true", 15), "built");
  EXPECT_THAT(evaluate("use_polygon: true", 7), HasSubstr("must be [1,1,rows,15], found [1,1,4,7]"));
  EXPECT_THAT(evaluate("use_polygon: false", 12), HasSubstr("rotated boxes"));
  EXPECT_THAT(evaluate("has_lm: true", 7), HasSubstr("must be [1,1,rows,17]"));
}

// MultiBoxLoss's forks -----------------------------------------------------------------------------------------------

std::string Loss(const std::string& type, const std::string& fields, const std::string& more, int64_t vectors = 0) {
  std::vector<std::vector<int64_t>> shapes = {{1, 8}, {1, 4}, {1, 2, 8}, {1, 1, 1, 8}};
  if (vectors > 0) shapes.push_back({1, vectors});
  return Layer(shapes, type, StrCat("multibox_loss_param { num_classes: 2 ", fields, " } ", more));
}

TEST(SingleStageTest, LossMistakes) {
  const std::string three = "multibox_center_loss_param { center_features: 3 }";
  const auto center = [](const std::string& fields, const std::string& more, int64_t vectors) {
    return ErrorsOf(Loss("MultiBoxCenterLoss", fields, more, vectors));
  };
  EXPECT_EQ(center("mining_type: MAX_NEGATIVE", three, 6), "built");
  EXPECT_THAT(center("", three, 5), HasSubstr("must have 3 values for each of 2 priors of 1 images, found [1,5]"));
  EXPECT_THAT(center("", "", 6), HasSubstr("center_features must be given, at least 1"));
  EXPECT_THAT(center("do_neg_mining: true", three, 6), HasSubstr("mixes up its images"));
  EXPECT_THAT(center("mining_type: HARD_EXAMPLE", three, 6), HasSubstr("has no HARD_EXAMPLE"));
  EXPECT_THAT(center("conf_loss_type: LOGISTIC", three, 6), HasSubstr("conf_loss_type: SOFTMAX alone"));
  EXPECT_THAT(ErrorsOf(Loss("MultiBoxFocalLoss", "", "focal_loss_param { gamma: -1 }")),
              HasSubstr("gamma must not be negative, found -1"));
  EXPECT_THAT(ErrorsOf(Loss("MultiBoxSSDLoss", "background_label_id: 2", "")),
              HasSubstr("must be one of the 2 classes"));
}

// If it has no slope, the focal loss is MultiBoxLoss's, and so is a centre loss of no weight.
TEST(SingleStageTest, ForksWithoutTheirPartAreMultiBoxLoss) {
  const Feeds feeds = {{"a", {0.5, -0.25, 0.75, 0.125, 0, 0.25, 1, -1}},
                       {"b", {0.25, -1, 0.5, 2}},
                       {"c", {0, 0, 0.5, 1, 0.5, 0, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
                       {"d", {0, 1, 0, 0, 0, 0.5, 0.75, 0}}};
  const std::string fields = "mining_type: NONE";
  const double loss = TopValues(BuildText(Loss("MultiBoxLoss", fields, "")), feeds, "y")[0];
  const std::string focal = Loss("MultiBoxFocalLoss", fields, "focal_loss_param { alpha: 1 gamma: 0 }");
  EXPECT_NEAR(TopValues(BuildText(focal), feeds, "y")[0], loss, 1e-9);
  const std::string center =
      Loss("MultiBoxCenterLoss", "center_loss_weight: 0", "multibox_center_loss_param { center_features: 3 }", 6);
  EXPECT_NEAR(TopValues(BuildText(center), feeds, "y")[0], loss, 1e-9);
  EXPECT_GT(loss, 0.1);
}

// Classes in a tree --------------------------------------------------------------------------------------------------

class ClassTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  // The loss of one anchor in 2 x 2 cells; channels 4 and on (objectness, classes) as given in every cell.
  static double Of(int64_t classes, const std::string& fields, const std::vector<double>& channels,
                   const std::vector<double>& row) {
    std::vector<double> x(4UL * 4, 0.125);
    for (const double value : channels) x.insert(x.end(), 4, value);
    const std::string text =
        Layer({{1, 5 + classes, 2, 2}, {1, 1, 1, 8}}, "RegionLoss",
              StrCat("region_loss_param { num_class: ", classes, " num: 1 biases: 1 biases: 1 ", fields, " }"));
    return TopValues(BuildText(text), {{"a", x}, {"b", row}}, "y")[0];
  }

  static std::vector<double> Object(double label) { return {0, label, 0, 0.25, 0.25, 0.5, 0.75, 0}; }

  std::filesystem::path folder_;
};

TEST_F(ClassTreeTest, AGroupHasASoftmaxOfItsOwn) {
  // An only child is certain, so its object costs what its parent's class among the two at the top costs.
  const std::string tree = StrCat("softmax_tree: \"", Write("tree", "animal -1\nvehicle -1\ndog 0\n"), "\"");
  const double flat = Of(2, "", {0.25, 0.5, -1}, Object(1));  // labels from 1
  EXPECT_NEAR(Of(3, tree, {0.25, 0.5, -1, 7}, Object(2)), flat, 1e-12);
  EXPECT_NEAR(Of(3, tree, {0.25, 0.5, -1, 7}, Object(0)), flat, 1e-12);
  EXPECT_GT(std::abs(Of(3, tree, {0.25, 0.5, -1, 7}, Object(1)) - flat), 1e-3);
  // By the map, label 0 is class 2.
  const std::string map = StrCat(" class_map: \"", Write("map", "2\r\n1\n"), "\"");
  EXPECT_NEAR(Of(3, tree + map, {0.25, 0.5, -1, 7}, Object(0)), flat, 1e-12);
  EXPECT_NEAR(Of(3, tree + map, {0.25, 0.5, -1, 7}, Object(1)), Of(3, tree, {0.25, 0.5, -1, 7}, Object(1)), 1e-12);
}

TEST_F(ClassTreeTest, AnObjectWithoutABoxRulesTheLikeliestAnchor) {
  const std::string tree = StrCat("softmax_tree: \"", Write("tree", "a -1\nb -1\n"), "\"");
  const std::string fields = " noobject_scale: 0.5 object_scale: 5 class_scale: 2";
  std::vector<double> row = {0, 1, 0, 2e5, 2e5, 2e5, 2e5, 0};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  // All anchors are alike: the first is chosen. Its objectness is pulled up to 0.3 only from below.
  const double q = sigmoid(0.5 - -1.0);  // of class 0
  const double classes = 2 * std::pow(2 * q, 2);
  // Its class is the net's own, whatever the map makes of other labels.
  const std::string map = StrCat(" class_map: \"", Write("map", "0\n"), "\"");
  EXPECT_EQ(Of(2, tree + map + fields, {0.5, 0.5, -1}, row), Of(2, tree + fields, {0.5, 0.5, -1}, row));
  for (const double o : {-2.0, 0.5}) {
    const double p = sigmoid(o);
    const double none = 0.5 * p * p * (1 - p);
    const double chosen = p < 0.3 ? 5 * (double{0.3F} - p) * p * (1 - p) : 0;
    EXPECT_NEAR(Of(2, tree + fields, {o, 0.5, -1}, row), 3 * none * none + chosen * chosen + classes, 1e-9) << o;
  }
}

TEST_F(ClassTreeTest, Mistakes) {
  const auto error = [](const std::string& fields, const std::vector<int64_t>& label) {
    return ErrorsOf(Layer({{1, 7, 2, 2}, label}, "RegionLoss",
                          StrCat("region_loss_param { num_class: 2 num: 1 biases: 1 biases: 1 ", fields, " }")));
  };
  const std::vector<int64_t> rows = {1, 1, 1, 8};
  EXPECT_THAT(error("softmax_tree: \"9k.tree\"", rows), HasSubstr("9k.tree"));
  const auto tree = [&](const std::string& text) { return StrCat("softmax_tree: \"", Write("tree", text), "\""); };
  EXPECT_EQ(error(tree("a -1\nb 0\n\n"), rows), "built");
  EXPECT_THAT(error(tree("a -1\nb 0\n"), {1, 10}), HasSubstr("softmax_tree goes with labels [1,1,M,8]"));
  EXPECT_THAT(error(tree("a -1\n"), rows), HasSubstr("softmax_tree must name 2 classes (num_class)"));
  EXPECT_THAT(error(tree("a 1\nb -1\n"), rows), HasSubstr("which come before them or are -1"));
  EXPECT_THAT(error(tree("a -1\nb\n"), rows), HasSubstr("line 2 of "));
  EXPECT_THAT(error(StrCat("class_map: \"", Write("map", "0\n2\n"), "\""), rows),
              HasSubstr("class_map names 2, none of 2 classes"));
}

// Others -------------------------------------------------------------------------------------------------------------

TEST(SingleStageTest, MishIsExactFarOut) {
  const BuiltNet net = BuildText(Layer({{3}}, "Mish", ""));
  const std::vector<double> y = TopValues(net, {{"a", {-700, 0, 700}}}, "y");
  EXPECT_NEAR(y[0], 0, 1e-290);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 700);
}

TEST(SingleStageTest, ALayersOtherNames) {
  EXPECT_THAT(ErrorsOf(Layer({{1, 3, 2, 2}}, "BatchNormScale", "batch_norm_param { scale_bias: true }")),
              HasSubstr("BatchNormScale has a scale and a shift"));
  const BuiltNet net = BuildText(Layer({{2, 3, 2, 2}}, "BatchNormScale", ""));
  ASSERT_EQ(net.blobs.size(), 5U);
  EXPECT_EQ(net.blobs[3].shape, (Shape{3}));
  EXPECT_EQ(net.blobs[3].role, ParameterRole::kNorm);
  const std::string yolo = "num_classes: 1 num_box: 1 mask_group_num: 1 biases: 8 biases: 8 mask: 0 anchors_scale: 32";
  EXPECT_EQ(TopShape(Layer({{1, 6, 2, 3}}, "Yolov3Detection", StrCat("yolov3_detection_output_param { ", yolo, " }"))),
            (Shape{1, 1, 6, 7}));
  EXPECT_THAT(ErrorsOf(Layer({{1, 10, 2, 3}}, "Yolov3Detection",
                             StrCat("yolov3_detection_output_param { gaussian_box: true ", yolo, " }"))),
              HasSubstr("Yolov3Detection has no gaussian_box"));
}

TEST(SingleStageTest, PlateMistakes) {
  const auto error = [](int64_t letters, const std::string& fields) {
    return ErrorsOf(Layer({{2, 4}, {2, 3}, {2, 5}, {2, 5}, {2, 5}, {2, 5}, {2, letters}}, "DetectionCcpdOutput",
                          "lp_det_param { num_chinese: 4 num_english: 3 " + fields + " }"),
                    TEST);
  };
  EXPECT_EQ(error(5, "num_letter: 5"), "built");
  EXPECT_THAT(error(6, "num_letter: 5"), HasSubstr("must have 5 values for each of 2 plates, found [2,6]"));
  EXPECT_THAT(error(5, ""), HasSubstr("num_letter must be given, at least 1"));
  EXPECT_THAT(ErrorsOf(Layer({{2, 7}, {1, 7}}, "LpEvaluate", ""), TEST),
              HasSubstr("has no 7 characters for each of 2 plates"));
}

}  // namespace
}  // namespace moka
