// Measures of what a net does not know, against values computed by hand.
#include "tools/infer/uncertainty.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace moka {
namespace {

TEST(UncertaintyTest, AMarginIsOfTheTwoBestProbabilities) {
  EXPECT_NEAR(MarginUncertainty(std::array{0.7F, 0.1F, 0.2F}), 0.5, 1e-6);
  EXPECT_NEAR(MarginUncertainty(std::array{0.5F, 0.5F}), 1, 1e-6);
  EXPECT_NEAR(MarginUncertainty(std::array{0.9F}), 0.2, 1e-6) << "one class beside the rest";
  EXPECT_EQ(MarginUncertainty({}), 0);
}

TEST(UncertaintyTest, ScoresThatAreNoProbabilitiesBecomeTheirSoftmax) {
  const double p = 1 / (1 + std::exp(-2.0));
  EXPECT_NEAR(MarginUncertainty(std::array{3.0F, 1.0F}), 1 - (2 * p - 1), 1e-6);
  EXPECT_NEAR(MarginUncertainty(std::array{-2.0F}), 1 - (2 * p - 1), 1e-6);
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(MarginUncertainty(std::array{kInfinite, 0.0F}), 0);
  EXPECT_EQ(MarginUncertainty(std::array{kInfinite, kInfinite}), 1);
}

TEST(UncertaintyTest, AnEntropyIsAPartOfTheMost) {
  EXPECT_NEAR(EntropyUncertainty(std::array{0.25F, 0.25F, 0.25F, 0.25F}), 1, 1e-9);
  EXPECT_NEAR(EntropyUncertainty(std::array{0.5F, 0.5F, 0.0F, 0.0F}), 0.5, 1e-9);
  EXPECT_EQ(EntropyUncertainty(std::array{1.0F, 0.0F}), 0);
}

TEST(UncertaintyTest, DetectionsAreWeighedByTheirScores) {
  EXPECT_EQ(DetectionUncertainty({}), 0);
  EXPECT_EQ(DetectionUncertainty(std::array{1.0, 0.0}), 0);
  EXPECT_NEAR(DetectionUncertainty(std::array{0.5, 0.5}), 1, 1e-12);
  EXPECT_NEAR(DetectionUncertainty(std::array{0.5, 1.0}), 0.5 / 1.5, 1e-12);
}

}  // namespace
}  // namespace moka
