// Tables of MaskEvaluate layers become COCO's average precision of masks. tests/golden/mask_precision.json holds what
// pycocotools makes of the same masks, crowds and difficult objects among them.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "optim/evaluators/evaluator.h"

namespace moka {
namespace {

std::unique_ptr<Evaluator> EvaluatorOf(uint32_t max_detections = 100) {
  LayerParameter layer;
  layer.set_type("MaskEvaluate");
  layer.mutable_mask_param()->set_max_detections(max_detections);
  return MakeEvaluator(layer, {});
}

TEST(MaskEvaluatorTest, GivesTheNumbersOfCocosOwnProgram) {
  const auto golden =
      nlohmann::json::parse(ReadFile(std::string(MOKA_SOURCE_DIR) + "/tests/golden/mask_precision.json"));
  const auto evaluator = EvaluatorOf();
  for (const auto& batch : golden.at("batches")) evaluator->Add(batch.get<std::vector<float>>());
  std::map<std::string, double> values;
  const std::vector<OutputValue> found = evaluator->Values("mask_ap");
  for (const OutputValue& value : found) values[value.name] = value.value;
  ASSERT_EQ(values.size(), golden.at("values").size());
  for (const auto& [name, value] : golden.at("values").items()) {
    EXPECT_NEAR(values.at("mask_ap" + name), value.get<double>(), 1e-9) << name;
  }
  ASSERT_EQ(found[0].classes.size(), golden.at("classes").size());
  for (const auto& [label, value] : golden.at("classes").items()) {
    EXPECT_NEAR(found[0].classes.at(std::stoi(label)), value.get<double>(), 1e-9) << label;
  }
}

// A table of one picture: detections of class 1 with scores and overlaps with objects of class 1, all of 100 pixels.
std::vector<float> MaskTable(const std::vector<std::vector<float>>& detections, const std::vector<float>& marks) {
  std::vector<float> table = {static_cast<float>(detections.size()), static_cast<float>(marks.size()), -1};
  table.insert(table.end(), marks.size(), -1);
  for (const std::vector<float>& detection : detections) {
    table.insert(table.end(), {1, detection[0], 100});
    table.insert(table.end(), detection.begin() + 1, detection.end());
  }
  for (const float value : {1.0F, 100.0F}) {
    table.insert(table.end(), 3, -1);
    table.insert(table.end(), marks.size(), value);
  }
  table.insert(table.end(), 3, -1);
  table.insert(table.end(), marks.begin(), marks.end());
  return table;
}

double MaskPrecisionOf(const std::vector<float>& table, uint32_t max_detections = 100) {
  const auto evaluator = EvaluatorOf(max_detections);
  evaluator->Add(table);
  return evaluator->Values("mask_ap").at(1).value;
}

TEST(MaskEvaluatorTest, CountsDifficultObjectsAndCrowdsNeitherWay) {
  // The object is found; two better scores are of the other one, which the second cannot take once more.
  const std::vector<std::vector<float>> detections = {{0.9F, 0, 0.8F}, {0.8F, 0, 0.7F}, {0.7F, 0.9F, 0}};
  EXPECT_NEAR(MaskPrecisionOf(MaskTable(detections, {0, 0})), (51 * 1.0 + 50 * 2.0 / 3) / 101, 1e-9);
  EXPECT_NEAR(MaskPrecisionOf(MaskTable(detections, {0, 1})), 0.5, 1e-9) << "the second is a false one";
  EXPECT_NEAR(MaskPrecisionOf(MaskTable(detections, {0, 2})), 1, 1e-9) << "both are of the crowd";
}

TEST(MaskEvaluatorTest, AnOverlapOfAThresholdReachesIt) {
  // 13/20 and 9/10 are below 0.65 and 0.9 as float32 has them.
  for (const auto& [overlap, reached] : {std::pair{13.0F / 20, 4}, {9.0F / 10, 9}, {0.649999F, 3}}) {
    const auto evaluator = EvaluatorOf();
    evaluator->Add(MaskTable({{0.9F, overlap}}, {0}));
    EXPECT_NEAR(evaluator->Values("m").at(0).value, reached / 10.0, 1e-9) << overlap;
  }
}

TEST(MaskEvaluatorTest, TakesTheBestOfEachPicture) {
  const std::vector<float> table = MaskTable({{0.9F, 0}, {0.5F, 1}}, {0});
  EXPECT_NEAR(MaskPrecisionOf(table), 0.5, 1e-9);
  EXPECT_EQ(MaskPrecisionOf(table, 1), 0);
  EXPECT_EQ(MaskPrecisionOf(MaskTable({{0.9F}}, {})), -1) << "no objects";
}

TEST(MaskEvaluatorTest, StartsAnewAndRefusesBrokenTables) {
  const auto evaluator = EvaluatorOf();
  std::vector<float> table = MaskTable({{0.9F, 1}}, {0});
  evaluator->Add(table);
  EXPECT_NEAR(evaluator->Values("m").at(0).value, 1, 1e-9);
  evaluator->Reset();
  EXPECT_EQ(evaluator->Values("m").at(0).value, -1);
  table.pop_back();
  EXPECT_THROW(evaluator->Add(table), Error);
}

}  // namespace
}  // namespace moka
