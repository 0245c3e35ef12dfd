// Average precision against curves worked out by hand and against rows of DetectionEvaluate.
#include "optim/evaluators/average_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace moka {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

// Right, wrong, right, wrong, right of four objects: recall 1/4, 1/4, 1/2, 1/2, 3/4; precision 1, 1/2, 2/3, 1/2, 3/5.
const std::vector<RankedDetection> kFive = {{0.9F, true}, {0.8F, false}, {0.7F, true}, {0.6F, false}, {0.5F, true}};

double Of(const std::vector<RankedDetection>& detections, int64_t objects, std::string_view rule) {
  return AveragePrecision(detections, objects, PrecisionRuleNamed(rule));
}

TEST(AveragePrecisionTest, FollowsTheThreeRules) {
  EXPECT_NEAR(Of(kFive, 4, "Integral"), (1 + 2 / 3.0 + 3 / 5.0) / 4, 1e-7);
  EXPECT_NEAR(Of(kFive, 4, "MaxIntegral"), (1 + 2 / 3.0 + 3 / 5.0) / 4, 1e-7);
  // Recalls 0 to 0.2: 1; 0.3 to 0.5: 2/3; 0.6 and 0.7: 3/5; above: 0.
  EXPECT_NEAR(Of(kFive, 4, "11point"), (3 + 3 * 2 / 3.0 + 2 * 3 / 5.0) / 11, 1e-7);
}

TEST(AveragePrecisionTest, TheBestPrecisionFromARecallOnCounts) {
  const std::vector<RankedDetection> late = {{0.9F, false}, {0.8F, true}, {0.7F, true}};
  EXPECT_NEAR(Of(late, 2, "Integral"), (1 / 2.0 + 2 / 3.0) / 2, 1e-7);
  EXPECT_NEAR(Of(late, 2, "MaxIntegral"), 2 / 3.0, 1e-7);
  EXPECT_NEAR(Of(late, 2, "11point"), 2 / 3.0, 1e-7);
}

TEST(AveragePrecisionTest, SortsByScoreAndKeepsTheOrderOfEquals) {
  EXPECT_NEAR(Of({{0.1F, false}, {0.9F, true}}, 1, "Integral"), 1, 1e-7);
  EXPECT_NEAR(Of({{0.5F, false}, {0.5F, true}}, 1, "Integral"), 0.5, 1e-7);
  EXPECT_NEAR(Of({{NAN, false}, {0.5F, true}}, 1, "Integral"), 1, 1e-7);
}

TEST(AveragePrecisionTest, IsNothingWithoutDetectionsOrObjects) {
  EXPECT_EQ(Of({}, 3, "11point"), 0);
  EXPECT_EQ(Of(kFive, 0, "MaxIntegral"), 0);
}

TEST(AveragePrecisionTest, ARecallOfSevenTenthsIsFloat) {
  std::vector<RankedDetection> seven(7, {0.5F, true});
  // 7/10 in float is below 0.7, so the eighth point is missed, as in Caffe.
  EXPECT_NEAR(Of(seven, 10, "11point"), 7 / 11.0, 1e-7);
}

TEST(AveragePrecisionTest, UnknownRulesGetTheNearest) {
  try {
    PrecisionRuleNamed("maxIntegral");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no rule of average precision \"maxIntegral\""));
    EXPECT_THAT(error.hint(), HasSubstr("MaxIntegral"));
  }
}

TEST(DetectionScoresTest, AddsBatchesAndLeavesPaddingAndDifficultObjectsOut) {
  DetectionScores scores;
  const float first[] = {-1, 1, 1, -1, -1, -1, 2, 1, -1, -1, 0, 1, 0.9F, 1, 0, -1, -1, -1, -1, -1};
  const float second[] = {-1, 1, 1, -1, -1, -1, 2, 0, -1, -1, 0, 1, 0.95F, 0, 1, 1, 1, 0.99F, 0, 0};
  scores.Add(first);
  scores.Add(second);
  EXPECT_THAT(scores.AveragePrecisions(PrecisionRule::kIntegral),
              UnorderedElementsAre(Pair(1, DoubleNear(0.25, 1e-7)), Pair(2, 0)));
  EXPECT_NEAR(scores.Mean(PrecisionRule::kIntegral), 0.125, 1e-7);
  EXPECT_EQ(DetectionScores().Mean(PrecisionRule::kIntegral), 0);
}

}  // namespace
}  // namespace moka
