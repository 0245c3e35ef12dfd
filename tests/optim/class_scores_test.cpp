// Confusion, precision, recall, average precision, calibration and intervals against numbers worked out by hand.
#include "optim/evaluators/class_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "optim/evaluators/intervals.h"

namespace moka {
namespace {

using testing::ElementsAre;

// Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I,
// method 3.
TEST(WilsonIntervalTest, IsThatOfNewcombesTable) {
  const auto expect = [](int64_t hits, int64_t count, double low, double high) {
    const ShareInterval interval = WilsonInterval(hits, count);
    EXPECT_NEAR(interval.low, low, 5e-5) << hits << " of " << count;
    EXPECT_NEAR(interval.high, high, 5e-5) << hits << " of " << count;
  };
  expect(81, 263, 0.2553, 0.3662);
  expect(15, 148, 0.0624, 0.1605);
  expect(0, 20, 0, 0.1611);
  expect(1, 29, 0.0061, 0.1718);
}

TEST(WilsonIntervalTest, StaysInsideAndIsSymmetric) {
  EXPECT_EQ(WilsonInterval(0, 0).low, 0);
  EXPECT_EQ(WilsonInterval(0, 0).high, 1);
  EXPECT_EQ(WilsonInterval(0, 7).low, 0);
  EXPECT_EQ(WilsonInterval(7, 7).high, 1);
  EXPECT_NEAR(WilsonInterval(2, 9).low, 1 - WilsonInterval(7, 9).high, 1e-15);
}

// Thresholds 0.9, 0.8, 0.7 (two at once), 0.5 of three objects: recall 1/3, 1/3, 2/3, 1; precision 1, 1/2, 2/4, 3/5.
TEST(RankedCurveTest, EqualScoresAreOneThreshold) {
  std::vector<RankedDetection> ranked = {{0.5F, true}, {0.7F, true}, {0.9F, true}, {0.7F, false}, {0.8F, false}};
  const RankedCurve curve = RankedCurveOf(ranked, 3);
  EXPECT_NEAR(curve.average_precision, (1 + 0.5 + 0.6) / 3, 1e-12);
  std::vector<RankedDetection> other = {{0.7F, false}, {0.8F, false}, {0.9F, true}, {0.7F, true}, {0.5F, true}};
  EXPECT_EQ(RankedCurveOf(other, 3).average_precision, curve.average_precision) << "the order given makes none";
  EXPECT_EQ(curve.precisions.size(), 101U);
  EXPECT_EQ(curve.precisions[0], 1);
  EXPECT_EQ(curve.precisions[33], 1);
  EXPECT_EQ(curve.precisions[34], 0.6) << "the best of 1/2 and 3/5";
  EXPECT_EQ(curve.precisions[100], 0.6);
}

TEST(RankedCurveTest, WhatIsNotFoundIsNotReached) {
  std::vector<RankedDetection> ranked = {{0.9F, true}, {NAN, true}, {0.2F, false}};
  const RankedCurve curve = RankedCurveOf(ranked, 4);
  EXPECT_NEAR(curve.average_precision, 0.25 * 1 + 0.25 * 2 / 3, 1e-12) << "a NaN ranks last";
  EXPECT_EQ(curve.precisions[25], 1);
  EXPECT_NEAR(curve.precisions[50], 2 / 3.0, 1e-12);
  EXPECT_EQ(curve.precisions[51], 0);
  std::vector<RankedDetection> none;
  EXPECT_EQ(RankedCurveOf(none, 0).average_precision, 0);
}

// Two of confidence 0.95, one right: |0.5 - 0.95| = 0.45. One of 0.5 that is right: 0.5. One of 0.7 that is wrong: 0.7.
TEST(ReliabilityTest, ErrorIsTheMeanGapOfBins) {
  Reliability reliability;
  reliability.Add(0.95, true);
  reliability.Add(0.95, false);
  reliability.Add(0.5, true);
  reliability.Add(0.7, false);
  reliability.Add(NAN, true);
  EXPECT_EQ(reliability.samples(), 4);
  EXPECT_NEAR(reliability.expected_error(), (2 * 0.45 + 0.5 + 0.7) / 4, 1e-12);
  EXPECT_NEAR(reliability.largest_error(), 0.7, 1e-12);
  EXPECT_NEAR(reliability.mean_confidence(), (2 * 0.95 + 0.5 + 0.7) / 4, 1e-12);
  EXPECT_EQ(reliability.bins()[14].samples, 2);
  EXPECT_EQ(reliability.bins()[14].right, 1);
}

TEST(ReliabilityTest, BinsAreClosedAbove) {
  Reliability reliability;
  for (const double confidence : {0.0, 1 / 15.0, 1 / 15.0 + 1e-9, 1.0}) reliability.Add(confidence, false);
  EXPECT_EQ(reliability.bins()[0].samples, 2);
  EXPECT_EQ(reliability.bins()[1].samples, 1);
  EXPECT_EQ(reliability.bins()[14].samples, 1);
}

// Six samples of three classes, none of class 2:
//   label  probabilities   taken for
//   0      .8 .1 .1        0
//   0      .3 .6 .1        1
//   0      .4 .3 .3        0
//   1      .2 .7 .1        1
//   1      .1 .2 .7        2
//   1      .6 .3 .1        0
ClassScores Six(int64_t curve_bytes = ClassScores::kCurveBytes) {
  ClassScores scores(3, ScoreKind::kProbabilities, 6, curve_bytes);
  const std::vector<std::vector<float>> rows = {{.8F, .1F, .1F}, {.3F, .6F, .1F}, {.4F, .3F, .3F},
                                                {.2F, .7F, .1F}, {.1F, .2F, .7F}, {.6F, .3F, .1F}};
  for (size_t i = 0; i < rows.size(); ++i) scores.Add(static_cast<int64_t>(i), i < 3 ? 0 : 1, rows[i]);
  return scores;
}

TEST(ClassScoresTest, ConfusionCountsPairs) {
  const ClassScores scores = Six();
  EXPECT_THAT(scores.Confusion(), ElementsAre(ConfusionCell{0, 0, 2}, ConfusionCell{0, 1, 1}, ConfusionCell{1, 0, 1},
                                              ConfusionCell{1, 1, 1}, ConfusionCell{1, 2, 1}));
  EXPECT_EQ(scores.hits(), 3);
  EXPECT_EQ(scores.hits_of_five(), 6) << "of three classes each is among the first five";
  const std::vector<ClassCounts> counts = CountsOf(scores.Confusion(), 3);
  EXPECT_NEAR(*counts[0].precision(), 2 / 3.0, 1e-12);
  EXPECT_NEAR(*counts[0].recall(), 2 / 3.0, 1e-12);
  EXPECT_NEAR(*counts[0].f1(), 2 / 3.0, 1e-12);
  EXPECT_NEAR(*counts[1].precision(), 1 / 2.0, 1e-12);
  EXPECT_NEAR(*counts[1].recall(), 1 / 3.0, 1e-12);
  EXPECT_NEAR(*counts[1].f1(), 2 / 5.0, 1e-12);
  EXPECT_NEAR(*counts[1].overlap(), 1 / 4.0, 1e-12);
  EXPECT_EQ(*counts[2].precision(), 0);
  EXPECT_FALSE(counts[2].recall()) << "a share of no samples";
  EXPECT_EQ(*counts[2].f1(), 0);
}

// Class 0 by falling probability: .8 right, .6 wrong, .4 right, .3 right, ...: (1 + 2/3 + 3/4) / 3.
// Class 1: .7 right, .6 wrong, .3 (one right, one wrong), .2 right, .1: (1 + 2/4 + 3/5) / 3.
TEST(ClassScoresTest, CurvesAreOneClassAgainstTheOthers) {
  const std::vector<std::optional<RankedCurve>> curves = Six().Curves();
  EXPECT_NEAR(curves[0]->average_precision, (1 + 2 / 3.0 + 3 / 4.0) / 3, 1e-12);
  EXPECT_NEAR(curves[1]->average_precision, (1 + 2 / 4.0 + 3 / 5.0) / 3, 1e-12);
  EXPECT_FALSE(curves[2]);
}

TEST(ClassScoresTest, LossIsOfTheLabelAndConfidenceOfTheChoice) {
  const ClassScores scores = Six();
  EXPECT_FLOAT_EQ(scores.samples()[1].confidence, .6F);
  EXPECT_FLOAT_EQ(scores.samples()[1].loss, -std::log(.3F));
  EXPECT_EQ(scores.samples()[4].predicted, 2);
  // Confidences .8 right, .6 wrong, .4 right, .7 right, .7 wrong, .6 wrong: the bins of .8, .6, .4 and .7.
  EXPECT_NEAR(scores.reliability().expected_error(), (0.2 + 2 * 0.6 + 0.6 + 2 * 0.2) / 6, 1e-7);
}

TEST(ClassScoresTest, LogitsBecomeProbabilities) {
  ClassScores scores(2, ScoreKind::kLogits, 2);
  const std::vector<float> large = {1000, 1000 + std::log(3.F)};
  EXPECT_NEAR(scores.Add(0, 0, large).confidence, 0.75, 1e-4);
  EXPECT_NEAR(scores.samples()[0].loss, std::log(4.0), 1e-3);
  const std::vector<float> far = {0, 2000};
  EXPECT_NEAR(scores.Add(1, 0, far).loss, -std::log(1.17549435e-38), 1e-3) << "no infinity, as in Caffe";
}

TEST(ClassScoresTest, ScoresAloneHaveNoCalibration) {
  ClassScores scores(3, ScoreKind::kScores, 1);
  const std::vector<float> margins = {-2, 5, 1};
  EXPECT_FLOAT_EQ(scores.Add(0, 2, margins).loss, 4);
  EXPECT_FALSE(scores.has_probabilities());
  EXPECT_EQ(scores.reliability().samples(), 0);
}

// Room for three rows of three floats: every second sample.
TEST(ClassScoresTest, CurvesAreOfSamplesThatFit) {
  const ClassScores scores = Six(36);
  EXPECT_EQ(scores.curve_samples(), 3);
  EXPECT_EQ(scores.samples().size(), 6U) << "counts are of all";
  // Samples 0, 2 and 4, of class 0 the first two: .8 and .4 come before .1.
  EXPECT_NEAR(scores.Curves()[0]->average_precision, 1, 1e-12);
}

}  // namespace
}  // namespace moka
