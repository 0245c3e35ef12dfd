// The layers of single-shot detection: shapes, choices that goldens do not show, and mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "layers/net/catalog.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

Shape TopShape(const std::string& text) {
  const BuiltNet net = BuildText(text);
  return net.graph.shape(net.tops.at("y"));
}

// PriorBox -----------------------------------------------------------------------------------------------------------

std::string PriorOf(const std::string& fields, bool with_image = true) {
  std::vector<std::vector<int64_t>> shapes = {{1, 8, 38, 38}};
  if (with_image) shapes.push_back({1, 3, 300, 300});
  return Layer(shapes, "PriorBox", "prior_box_param { " + fields + " }");
}

TEST(PriorBoxTest, HasABoxForEachRatioOnce) {
  EXPECT_EQ(TopShape(PriorOf("min_size: 30")), (Shape{1, 2, 38 * 38 * 4}));
  EXPECT_EQ(TopShape(PriorOf("min_size: 30 max_size: 60 aspect_ratio: 2")), (Shape{1, 2, 38 * 38 * 4 * 4}));
  EXPECT_EQ(TopShape(PriorOf("min_size: 30 max_size: 60 aspect_ratio: 2 aspect_ratio: 0.5 aspect_ratio: 1")),
            (Shape{1, 2, 38 * 38 * 4 * 4}));
  EXPECT_EQ(TopShape(PriorOf("min_size: 30 min_size: 50 flip: false aspect_ratio: 2 aspect_ratio: 3")),
            (Shape{1, 2, 38 * 38 * 6 * 4}));
}

TEST(PriorBoxTest, Mistakes) {
  EXPECT_THAT(ErrorsOf(PriorOf("")), HasSubstr("prior_box_param.min_size must be given"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 0")), HasSubstr("must be above 0"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30 max_size: 20")), HasSubstr("max_size 20 must be above its min_size 30"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30 min_size: 40 max_size: 50")),
              HasSubstr("max_size is given 1 times for 2 min_sizes"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30 variance: 0.1 variance: 0.2")), HasSubstr("one value or four, found 2"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30 aspect_ratio: -1")), HasSubstr("must be above 0"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30 img_size: 300 img_h: 300")), HasSubstr("not both"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30 img_h: 300")), HasSubstr("img_h and img_w must both be above 0"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30 step: 8 step_w: 8")), HasSubstr("not both"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30 step: 0")), HasSubstr("step must be above 0, found 0"));
  EXPECT_THAT(ErrorsOf(PriorOf("min_size: 30", false)), HasSubstr("the image's size is needed"));
  EXPECT_EQ(ErrorsOf(PriorOf("min_size: 30 img_size: 300", false)), "built");
}

// MultiBoxLoss -------------------------------------------------------------------------------------------------------

// One image, two priors side by side (left and right half), two classes; G rows of ground truth.
std::string Loss(const std::string& fields, int64_t rows = 1, const std::string& more = "") {
  return Layer({{1, 8}, {1, 4}, {1, 2, 8}, {1, 1, rows, 8}}, "MultiBoxLoss",
               "multibox_loss_param { num_classes: 2 " + fields + " } " + more);
}

Feeds LossFeeds(std::vector<double> truth) {
  return {{"a", std::vector<double>(8, 0.0)},
          {"b", {0, 0, 0, 0}},
          {"c", {0, 0, 0.5, 1, 0.5, 0, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
          {"d", std::move(truth)}};
}

double LossOf(const std::string& text, const std::vector<double>& truth) {
  return TopValues(BuildText(text), LossFeeds(truth), "y")[0];
}

const double kHalf = std::log(2.0);  // what an undecided prior costs

TEST(MultiBoxLossTest, AnImageWithoutObjectsCostsNothingWhenNegativesAreMined) {
  const std::vector<double> padding = {-1, -1, -1, -1, -1, -1, -1, -1};
  EXPECT_EQ(LossOf(Loss(""), padding), 0);
  // If nothing is mined, every prior is background; the divisor is at least 1.
  EXPECT_NEAR(LossOf(Loss("mining_type: NONE"), padding), 2 * kHalf, 1e-12);
}

TEST(MultiBoxLossTest, ObjectsOfOtherImagesAndOfNoClassAreLeftOut) {
  const std::vector<double> left = {0, 1, 0, 0, 0, 0.5, 1, 0};
  EXPECT_NEAR(LossOf(Loss(""), left), 2 * kHalf, 1e-12);  // the match, and one negative
  for (const size_t column : {0U, 1U}) {
    for (const double value : {-1.0, 5.0, 1e30, std::nan("")}) {
      if (column == 1 && value == 5) continue;  // of two classes, any object is the second
      std::vector<double> row = left;
      row[column] = value;
      EXPECT_EQ(LossOf(Loss(""), row), 0) << "column " << column << " is " << value;
    }
  }
  std::vector<double> background = left;
  background[1] = 0;
  EXPECT_EQ(LossOf(Loss(""), background), 0);
  std::vector<double> other = left;
  other[1] = 7;
  EXPECT_NEAR(LossOf(Loss(""), other), 2 * kHalf, 1e-12);
}

TEST(MultiBoxLossTest, DifficultObjectsCountUnlessToldNot) {
  const std::vector<double> row = {0, 1, 0, 0, 0, 0.5, 1, 1};
  EXPECT_NEAR(LossOf(Loss(""), row), 2 * kHalf, 1e-12);
  EXPECT_EQ(LossOf(Loss("use_difficult_gt: false"), row), 0);
}

TEST(MultiBoxLossTest, RowsNeedNotComeImageByImage) {
  const std::string text = Layer({{2, 8}, {2, 4}, {1, 2, 8}, {1, 1, 3, 8}}, "MultiBoxLoss",
                                 "multibox_loss_param { num_classes: 2 neg_pos_ratio: 0 }");
  Feeds feeds = LossFeeds({1, 1, 0, 0, 0, 0.5, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0.5, 0, 1, 1, 0});
  feeds["a"].resize(16);
  feeds["b"] = {0, 0, 0, 5, 0, 7, 0, 0};
  const double expected = (std::log1p(std::exp(-5.0)) + std::log1p(std::exp(-7.0))) / 2;
  EXPECT_NEAR(TopValues(BuildText(text), feeds, "y")[0], expected, 1e-12);
}

TEST(MultiBoxLossTest, ABottomWithoutPropagationAddsNothing) {
  const std::vector<double> row = {0, 1, 0, 0.1, 0, 0.5, 1, 0};
  const double both = LossOf(Loss(""), row);
  const std::string only_loc = "propagate_down: true propagate_down: false propagate_down: false propagate_down: false";
  const std::string only_conf =
      "propagate_down: false propagate_down: true propagate_down: false propagate_down: false";
  EXPECT_NEAR(LossOf(Loss("", 1, only_conf), row), 2 * kHalf, 1e-12);
  EXPECT_NEAR(LossOf(Loss("", 1, only_loc), row), both - 2 * kHalf, 1e-12);
}

TEST(MultiBoxLossTest, NoGradientReachesPriorsAndTruth) {
  BuiltNet net = BuildText(Loss(""));
  const std::vector<ValueId> wanted = {IdOf(net.graph, "c"), IdOf(net.graph, "d")};
  EXPECT_THAT(Differentiate(net.graph, net.tops.at("y"), wanted), Each(kNoId));
}

// If the labels have several planes, the first height * 8 numbers are the rows.
TEST(MultiBoxLossTest, ReadsRowsOutOfPlanesAsCaffeDoes) {
  const auto net = [](const std::vector<int64_t>& truth) {
    return BuildText(
        Layer({{1, 8}, {1, 4}, {1, 2, 8}, truth}, "MultiBoxLoss", "multibox_loss_param { num_classes: 2 }"));
  };
  Feeds feeds{{"a", {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}},
              {"b", {0.5, -0.5, 0.25, 1}},
              {"c", {0, 0, 0.5, 1, 0.5, 0, 1, 1, 0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2}},
              {"d", {0, 1, 0, 0.1, 0, 0.5, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0}}};
  const std::vector<double> expected = TopValues(net({1, 1, 2, 8}), feeds, "y");
  feeds["d"].insert(feeds["d"].end(), {0, 1, 0, 0.5, 0, 1, 1, 0});
  EXPECT_EQ(TopValues(net({3, 1, 2, 4}), feeds, "y"), expected);
  feeds["d"].resize(16);
  EXPECT_EQ(TopValues(net({2, 2, 2, 2}), feeds, "y"), expected);
  const auto mistake = [](const std::vector<int64_t>& truth) {
    return ErrorsOf(
        Layer({{1, 8}, {1, 4}, {1, 2, 8}, truth}, "MultiBoxLoss", "multibox_loss_param { num_classes: 2 }"));
  };
  EXPECT_THAT(mistake({3, 1, 2, 2}), HasSubstr("truth must be [1,1,rows,8], found [3,1,2,2]"));
  EXPECT_THAT(mistake({1, 1, 2, 9}), HasSubstr("truth must be [1,1,rows,8], found [1,1,2,9]"));
}

TEST(MultiBoxLossTest, Mistakes) {
  EXPECT_THAT(ErrorsOf(Layer({{1, 8}, {1, 4}, {1, 2, 8}, {1, 1, 1, 8}}, "MultiBoxLoss", "")),
              HasSubstr("num_classes must be given"));
  EXPECT_THAT(ErrorsOf(Loss("background_label_id: 2")),
              HasSubstr("background_label_id 2 must be one of the 2 classes"));
  EXPECT_THAT(ErrorsOf(Loss("do_neg_mining: false")), HasSubstr("mining_type is MAX_NEGATIVE"));
  EXPECT_THAT(ErrorsOf(Loss("share_location: false")), HasSubstr("mined only with share_location"));
  EXPECT_THAT(ErrorsOf(Loss("mining_type: HARD_EXAMPLE sample_size: 0")), HasSubstr("sample_size must be above 0"));
  EXPECT_THAT(ErrorsOf(Loss("nms_param { nms_threshold: 0.5 }")), HasSubstr("nms_param.top_k must be given"));
  EXPECT_THAT(ErrorsOf(Loss("map_object_to_agnostic: true background_label_id: 1")),
              HasSubstr("needs num_classes 2 and background_label_id 0"));
  EXPECT_THAT(ErrorsOf(Loss("neg_pos_ratio: nan")), HasSubstr("neg_pos_ratio"));
  EXPECT_THAT(ErrorsOf(Loss("share_location: false mining_type: NONE")),
              HasSubstr("loc has shape [1,8] but [1,16] is needed (2 priors, 2 location classes, 4 coordinates)"));
  const auto of_shapes = [](const std::vector<std::vector<int64_t>>& shapes) {
    return ErrorsOf(Layer(shapes, "MultiBoxLoss", "multibox_loss_param { num_classes: 2 }"));
  };
  EXPECT_THAT(of_shapes({{1, 8}, {2, 4}, {1, 2, 8}, {1, 1, 1, 8}}), HasSubstr("conf has shape [2,4]"));
  EXPECT_THAT(of_shapes({{1, 8}, {1, 4}, {2, 8}, {1, 1, 1, 8}}), HasSubstr("the priors must be [1,2,4*priors]"));
  EXPECT_THAT(of_shapes({{1, 8}, {1, 4}, {1, 2, 8}, {1, 8}}), HasSubstr("truth must be [1,1,rows,8], found [1,8]"));
  EXPECT_THAT(of_shapes({{1, 8}, {1, 4}, {1, 2, 8}, {1, 1, 1, 8}, {1, 3}}), HasSubstr("arm_conf has shape [1,3]"));
}

TEST(MultiBoxLossTest, TheKernelNamesARowOfNoClass) {
  const BuiltNet net = BuildText(
      Layer({{1, 8}, {1, 6}, {1, 2, 8}, {1, 1, 2, 8}}, "MultiBoxLoss", "multibox_loss_param { num_classes: 3 }"));
  const Graph& graph = net.graph;
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    if (node.op->name != "multibox_match") continue;
    std::vector<TensorType> inputs = graph.InputTypes(node);
    std::vector<TensorType> outputs = graph.OutputTypes(node);
    std::vector<OwnedTensor> memory;
    for (const TensorType& type : inputs) memory.emplace_back(type);
    for (const TensorType& type : outputs) memory.emplace_back(type);
    std::vector<Tensor> views;
    for (OwnedTensor& tensor : memory) {
      std::fill_n(static_cast<float*>(tensor.tensor().raw()), tensor.tensor().shape().Count(), 0.5F);
      views.push_back(tensor.tensor());
    }
    static_cast<float*>(views[3].raw())[8] = 0;
    static_cast<float*>(views[3].raw())[9] = 3;
    const KernelDef& def = *StandardCatalog().KernelsOf("multibox_match", DeviceKind::kCpu).front();
    const auto kernel = def.make({node, inputs, outputs});
    kernel->Bind({std::span(views).first(4), std::span(views).subspan(4), nullptr});
    kernel->Run();
    ASSERT_TRUE(kernel->CanFault());
    static_cast<float*>(views[3].raw())[1] = 1;  // row 0 was of the background, row 1 now is what is left
    EXPECT_EQ(kernel->TakeFault(),
              "the label 0.5 of ground truth row 0 is not a class from 0 to 2 other than the "
              "background 0");
    EXPECT_EQ(kernel->TakeFault(), "");
    kernel->Run();
    EXPECT_EQ(kernel->TakeFault(),
              "the label 3 of ground truth row 1 is not a class from 0 to 2 other than the "
              "background 0");
    return;
  }
  FAIL() << "the layer has no multibox_match";
}

// DetectionOutput ----------------------------------------------------------------------------------------------------

std::string Output(const std::string& fields, int64_t items = 2) {
  return Layer({{items, 40}, {items, 30}, {1, 2, 40}}, "DetectionOutput",
               "detection_output_param { num_classes: 3 " + fields + " }");
}

TEST(DetectionOutputTest, HasRoomForAllThatCanBeFound) {
  EXPECT_EQ(TopShape(Output("keep_top_k: 7")), (Shape{1, 1, 14, 7}));
  EXPECT_EQ(TopShape(Output("keep_top_k: 200")), (Shape{1, 1, 2 * 10 * 2, 7}));  // 10 priors, 2 classes of objects
  EXPECT_EQ(TopShape(Output("keep_top_k: 200 background_label_id: -1")), (Shape{1, 1, 2 * 10 * 3, 7}));
  EXPECT_EQ(TopShape(Output("keep_top_k: 200 nms_param { top_k: 4 }")), (Shape{1, 1, 2 * 4 * 2, 7}));
  EXPECT_EQ(TopShape(Output("")), (Shape{1, 1, 2 * 10 * 2, 7}));  // keep_top_k -1: all
}

TEST(DetectionOutputTest, ResultFilesAreNotWritten) {
  EXPECT_EQ(ErrorsOf(Output("save_output_param { output_directory: \"x\" output_format: \"VOC\" }")), "built");
}

TEST(DetectionOutputTest, Mistakes) {
  EXPECT_THAT(ErrorsOf(Layer({{1, 4}, {1, 2}, {1, 2, 4}}, "DetectionOutput", "")),
              HasSubstr("num_classes must be given"));
  EXPECT_THAT(ErrorsOf(Output("nms_param { nms_threshold: -1 }")), HasSubstr("must not be negative"));
  EXPECT_THAT(ErrorsOf(Output("nms_param { eta: 0 }")), HasSubstr("eta must be above 0 and at most 1"));
  EXPECT_THAT(ErrorsOf(Output("keep_top_k: 0")), HasSubstr("keep_top_k must be at least 1, or -1 for all, found 0"));
  EXPECT_THAT(ErrorsOf(Output("nms_param { top_k: 0 }")), HasSubstr("top_k must be at least 1"));
  EXPECT_THAT(ErrorsOf(Output("share_location: false")), HasSubstr("loc has shape [2,40] but [2,120] is needed"));
  EXPECT_THAT(
      ErrorsOf(Layer({{1, 4}, {1, 2}, {1, 2, 7}}, "DetectionOutput", "detection_output_param { num_classes: 2 }")),
      HasSubstr("the priors must be [1,2,4*priors]"));
  EXPECT_THAT(ErrorsOf(Layer({{1, 4}, {1, 2}, {1, 2, 4}}, "DetectionOutput",
                             "detection_output_param { num_classes: 4294967295 }")),
              HasSubstr("conf has shape [1,2]"));
}

// DetectionEvaluate --------------------------------------------------------------------------------------------------

std::string Evaluation(const std::string& fields) {
  return Layer({{1, 1, 2, 7}, {1, 1, 1, 8}}, "DetectionEvaluate",
               "detection_evaluate_param { num_classes: 2 " + fields + " }");
}

TEST(DetectionEvaluateTest, ASecondHitIsWrong) {
  const Feeds feeds = {{"a", {0, 1, 0.3, 0, 0, 1, 1, 0, 1, 0.6, 0, 0, 1, 1}}, {"b", {0, 1, 0, 0, 0, 1, 1, 0}}};
  EXPECT_THAT(TopValues(BuildText(Evaluation("")), feeds, "y"),
              ElementsAre(-1, 1, 1, -1, -1, 0, 1, 0.6, 1, 0, 0, 1, 0.3, 0, 1));
}

TEST(DetectionEvaluateTest, Mistakes) {
  EXPECT_THAT(ErrorsOf(Evaluation("overlap_threshold: 0")), HasSubstr("overlap_threshold must be above 0, found 0"));
  EXPECT_EQ(ErrorsOf(Evaluation("name_size_file: \"a\"")), "built");
  EXPECT_EQ(ErrorsOf(Evaluation("resize_param { height: 3 width: 3 }")), "built");
  EXPECT_THAT(
      ErrorsOf(Layer({{1, 1, 2, 6}, {1, 1, 1, 8}}, "DetectionEvaluate", "detection_evaluate_param { num_classes: 2 }")),
      HasSubstr("detections must be [1,1,rows,7], found [1,1,2,6]"));
}

// AnnotatedData ------------------------------------------------------------------------------------------------------

TEST(AnnotatedDataTest, TopsAreFedFromOutside) {
  const BuiltNet net = BuildText("layer { name: \"d\" type: \"AnnotatedData\" top: \"data\" top: \"label\" }");
  ASSERT_EQ(net.data.size(), 1U);
  EXPECT_THAT(net.data[0].tops, ElementsAre("data", "label"));
}

}  // namespace
}  // namespace moka
