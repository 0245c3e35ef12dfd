// Counts of SegmentationEvaluate layers become measures of a whole test, not means over its batches. The numbers are
// those of numpy over all pixels: h = diag(m), l = m.sum(1), p = m.sum(0) of the confusion matrix m.
#include <gtest/gtest.h>

#include <vector>

#include "optim/evaluators/evaluator.h"

namespace moka {
namespace {

std::unique_ptr<Evaluator> EvaluatorOf() {
  LayerParameter layer;
  layer.set_type("SegmentationEvaluate");
  return MakeEvaluator(layer, {});
}

TEST(SegmentationEvaluatorTest, AddsUpCountsOfAllBatches) {
  EXPECT_TRUE(HasEvaluator("SegmentationEvaluate"));
  const auto evaluator = EvaluatorOf();
  ASSERT_NE(evaluator, nullptr);
  // m = [[3,1,0,0],[2,4,0,1],[0,0,0,0],[1,0,0,0]] in two batches: class 2 neither occurs nor is predicted.
  evaluator->Add(std::vector<float>{1, 3, 0, 0, 2, 4, 0, 0, 2, 4, 0, 0});
  evaluator->Add(std::vector<float>{2, 1, 0, 0, 2, 3, 0, 1, 4, 1, 0, 1});
  const std::vector<OutputValue> values = evaluator->Values("miou");
  ASSERT_EQ(values.size(), 4U);
  EXPECT_EQ(values[0].name, "miou");
  EXPECT_NEAR(values[0].value, (3.0 / 7 + 4.0 / 8 + 0) / 3, 1e-12);
  ASSERT_EQ(values[0].classes.size(), 3U);
  EXPECT_NEAR(values[0].classes.at(0), 3.0 / 7, 1e-12);
  EXPECT_NEAR(values[0].classes.at(1), 0.5, 1e-12);
  EXPECT_EQ(values[0].classes.at(3), 0);
  EXPECT_EQ(values[1].name, "miou/pixel_accuracy");
  EXPECT_NEAR(values[1].value, 7.0 / 12, 1e-12);
  EXPECT_EQ(values[2].name, "miou/mean_accuracy");
  EXPECT_NEAR(values[2].value, (3.0 / 4 + 4.0 / 7 + 0) / 3, 1e-12);
  EXPECT_EQ(values[3].name, "miou/dice");
  EXPECT_NEAR(values[3].value, (6.0 / 10 + 8.0 / 12 + 0) / 3, 1e-12);
  evaluator->Reset();
  EXPECT_EQ(evaluator->Values("miou")[0].value, 0);
  EXPECT_EQ(evaluator->Values("miou")[1].value, 0);
}

}  // namespace
}  // namespace moka
