// Rows of CocoEvaluate layers become COCO's average precision of a whole test. tests/golden/coco_precision.json holds
// what pycocotools makes of the same boxes.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/file.h"
#include "optim/evaluators/evaluator.h"

namespace moka {
namespace {

std::unique_ptr<Evaluator> EvaluatorOf(uint32_t side, uint32_t max_detections = 100) {
  LayerParameter layer;
  layer.set_type("CocoEvaluate");
  layer.mutable_coco_evaluate_param()->set_max_detections(max_detections);
  if (side > 0) {
    layer.mutable_coco_evaluate_param()->set_height(side);
    layer.mutable_coco_evaluate_param()->set_width(side);
  }
  return MakeEvaluator(layer, {});
}

TEST(CocoEvaluatorTest, GivesTheNumbersOfCocosOwnProgram) {
  const auto golden =
      nlohmann::json::parse(ReadFile(std::string(MOKA_SOURCE_DIR) + "/tests/golden/coco_precision.json"));
  const auto evaluator = EvaluatorOf(golden.at("side"));
  for (const auto& batch : golden.at("batches")) evaluator->Add(batch.get<std::vector<float>>());
  std::map<std::string, double> values;
  const std::vector<OutputValue> found = evaluator->Values("coco");
  for (const OutputValue& value : found) values[value.name] = value.value;
  ASSERT_EQ(values.size(), golden.at("values").size());
  for (const auto& [name, value] : golden.at("values").items()) {
    EXPECT_NEAR(values.at("coco" + name), value.get<double>(), 1e-9) << name;
  }
  ASSERT_EQ(found[0].classes.size(), golden.at("classes").size());
  for (const auto& [label, value] : golden.at("classes").items()) {
    EXPECT_NEAR(found[0].classes.at(std::stoi(label)), value.get<double>(), 1e-9) << label;
  }
}

TEST(CocoEvaluatorTest, SaysWhereThereIsNothingToFind) {
  const auto evaluator = EvaluatorOf(0);
  const std::vector<OutputValue> nothing = evaluator->Values("coco");
  ASSERT_EQ(nothing.size(), 3U) << "without the pictures' size there are no sizes of objects";
  EXPECT_EQ(nothing[0].value, -1);
  // One object, found exactly, and one detection of a class without objects.
  const std::vector<float> rows = {0, 1,    0.5F, 0,  0, 0.5F, 0.5F, -1, 0, 2,    0.5F, 0,
                                   0, 0.5F, 0.5F, -1, 0, 1,    1,    0,  0, 0.5F, 0.5F, 0};
  evaluator->Add(rows);
  EXPECT_EQ(evaluator->Values("coco")[0].value, 1);
  evaluator->Reset();
  EXPECT_EQ(evaluator->Values("coco")[0].value, -1);
}

TEST(CocoEvaluatorTest, AnyNumberOfDetectionsMayBeOfACrowd) {
  // Two small ones inside the second object have better scores than the one that finds the first.
  const auto precision = [](float mark) {
    const std::vector<float> rows = {0,     1,     0.9F,  0.5F, 0.5F, 0.6F, 0.6F, -1, 0,    1,
                                     0.8F,  0.7F,  0.7F,  0.8F, 0.8F, -1,   0,    1,  0.5F, 0,
                                     0,     0.25F, 0.25F, -1,   0,    1,    1,    0,  0,    0.25F,
                                     0.25F, 0,     0,     1,    2,    0.5F, 0.5F, 1,  1,    mark};
    const auto evaluator = EvaluatorOf(0);
    evaluator->Add(rows);
    return evaluator->Values("coco")[1].value;
  };
  EXPECT_NEAR(precision(2), 1, 1e-12);
  EXPECT_NEAR(precision(1), 1.0 / 3, 1e-12) << "a difficult object is overlapped by too little";
}

TEST(CocoEvaluatorTest, TakesSoManyDetectionsOfAPictureAndClass) {
  // The right one has the lower score: with one detection it is not looked at.
  const std::vector<float> rows = {0, 1,    0.9F, 0.5F, 0.5F, 1, 1, -1, 0, 1,    0.5F, 0,
                                   0, 0.5F, 0.5F, -1,   0,    1, 1, 0,  0, 0.5F, 0.5F, 0};
  const auto one = EvaluatorOf(0, 1);
  one->Add(rows);
  EXPECT_EQ(one->Values("coco")[0].value, 0);
  const auto two = EvaluatorOf(0, 2);
  two->Add(rows);
  EXPECT_NEAR(two->Values("coco")[0].value, 0.5, 1e-12);
}

}  // namespace
}  // namespace moka
