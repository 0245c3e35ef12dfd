// The estimates of the gradient noise scale, from made-up gradients whose mean and covariance are known, and what is
// said and kept of them.
#include "optim/gradient_noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "optim/checkpoint/trainer_state.h"

namespace moka {
namespace {

constexpr int64_t kDims = 20;

double SquaredNorm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return sum;
}

// Gradients of single samples: |G|^2 = 0.25 kDims, and a deviation of its own in each dimension.
double TrueSquare() { return 0.25 * static_cast<double>(kDims); }
double Deviation(int64_t dim) { return 1 + 0.1 * static_cast<double>(dim); }
double TrueVariance() {
  double sum = 0;
  for (int64_t i = 0; i < kDims; ++i) sum += Deviation(i) * Deviation(i);
  return sum;
}

// Draws the gradients of an update of `parts` parts and returns its norms; of the parts the first `looked_at` count.
GradientNorms DrawNorms(RandomStream& random, int64_t part_samples, int64_t parts, int64_t looked_at) {
  GradientNorms norms{.part_samples = part_samples, .all_samples = part_samples * parts};
  std::vector<double> mean(static_cast<size_t>(kDims), 0);
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<double> own(static_cast<size_t>(kDims), 0);
    for (int64_t sample = 0; sample < part_samples; ++sample) {
      for (int64_t i = 0; i < kDims; ++i) {
        own[static_cast<size_t>(i)] += random.Normal(0.5, Deviation(i)) / static_cast<double>(part_samples);
      }
    }
    if (part < looked_at) norms.of_part += SquaredNorm(own) / static_cast<double>(looked_at);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / static_cast<double>(parts);
  }
  norms.of_all = SquaredNorm(mean);
  return norms;
}

TEST(GradientNoiseTest, AnUpdateGivesBothEstimates) {
  GradientNoise noise;
  // |G|^2 = (8 * 3 - 2 * 6) / 6, tr(Sigma) = (6 - 3) / (1/2 - 1/8).
  noise.Take(GradientNorms{.of_part = 6, .of_all = 3, .part_samples = 2, .all_samples = 8}, 0.9);
  EXPECT_EQ(noise.measured, 1);
  EXPECT_NEAR(noise.gradient_square(), 2, 1e-12);
  EXPECT_NEAR(noise.gradient_variance(), 8, 1e-12);
  EXPECT_NEAR(noise.scale().value_or(0), 4, 1e-12);
}

// All parts, as ranks give them, and the first alone, as iter_size does.
TEST(GradientNoiseTest, EstimatesComeToWhatTheGradientsWereDrawnFrom) {
  for (const int64_t looked_at : {int64_t{4}, int64_t{1}}) {
    RandomStream random(11, static_cast<uint64_t>(looked_at));
    GradientNoise noise;
    for (int update = 0; update < 4000; ++update) noise.Take(DrawNorms(random, 8, 4, looked_at), 0.9995);
    EXPECT_NEAR(noise.gradient_square(), TrueSquare(), 0.05 * TrueSquare()) << looked_at;
    EXPECT_NEAR(noise.gradient_variance(), TrueVariance(), 0.03 * TrueVariance()) << looked_at;
    ASSERT_TRUE(noise.scale().has_value());
    EXPECT_NEAR(*noise.scale(), TrueVariance() / TrueSquare(), 0.07 * TrueVariance() / TrueSquare()) << looked_at;
  }
}

TEST(GradientNoiseTest, LaterUpdatesWeighMoreAndTheFirstCountsWhole) {
  GradientNoise noise;
  noise.Take(GradientNorms{.of_part = 0, .of_all = 0, .part_samples = 1, .all_samples = 2}, 0.75);
  EXPECT_EQ(noise.gradient_square(), 0);
  noise.Take(GradientNorms{.of_part = 4, .of_all = 4, .part_samples = 1, .all_samples = 2}, 0.75);
  // Weights 0.1875 and 0.25 of the two.
  EXPECT_NEAR(noise.gradient_square(), 4 * 0.25 / 0.4375, 1e-12);
  const GradientNoise before = noise;
  noise.Take(std::nullopt, 0.75);
  EXPECT_EQ(noise, before);
}

TEST(GradientNoiseTest, AGradientThatIsLostInTheNoiseHasNoScale) {
  GradientNoise noise;
  EXPECT_FALSE(noise.scale().has_value());
  noise.Take(GradientNorms{.of_part = 8, .of_all = 1, .part_samples = 1, .all_samples = 2}, 0.9);
  EXPECT_LT(noise.gradient_square(), 0);
  EXPECT_FALSE(noise.scale().has_value());
  EXPECT_THAT(noise.Describe(), testing::HasSubstr("not known yet"));
  EXPECT_EQ(noise.DescribePrediction(2),
            "the gradient noise scale is not known after 1 measured update: the gradient is lost in the noise of a "
            "batch of 2, so a larger batch is useful");
}

TEST(GradientNoiseTest, WhatItPredictsIsSaid) {
  GradientNoise noise;
  // Steps are S_min (1 + 100/100) at a batch of 100 and S_min (1 + 100/200) at 200, samples E_min times 2 and 3.
  noise.Take(GradientNorms{.of_part = 3, .of_all = 2, .part_samples = 50, .all_samples = 100}, 0.5);
  EXPECT_EQ(noise.Describe(), "100 (|G|^2 1, tr(Sigma) 100)");
  EXPECT_EQ(noise.DescribePrediction(100),
            "the gradient noise scale is 100 samples (1 measured update), about the largest batch that is useful: at a "
            "batch of 100 an update makes 50 % of the progress of one without noise; a batch of 200 would take 25 % "
            "fewer iterations and 50 % more samples to the same loss (McCandlish et al. 2018)");
}

TEST(GradientNoiseTest, StatesKeepItBitForBitAndOldOnesAreRead) {
  TrainerState state;
  const std::string old = ToJson(state);
  EXPECT_EQ(old.find("gradient_noise"), std::string::npos);
  EXPECT_EQ(TrainerStateFromJson(old, "old").noise, GradientNoise());
  RandomStream random(3, 0);
  for (int update = 0; update < 7; ++update) state.noise.Take(DrawNorms(random, 2, 3, 3), 0.95);
  EXPECT_EQ(TrainerStateFromJson(ToJson(state), "new"), state);
  std::string broken = ToJson(state);
  broken.replace(broken.find("\"weight\": "), 10, "\"weight\": -");
  EXPECT_THROW(TrainerStateFromJson(broken, "broken"), Error);
}

}  // namespace
}  // namespace moka
