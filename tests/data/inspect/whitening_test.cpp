// Filters that whiten patches: patches of random pictures come out uncorrelated with variance 1, and what cannot be
// whitened is refused.
#include "data/inspect/whitening.h"

#include <cmath>
#include <random>

#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using WhiteningTest = DataTest;

// Pictures [2,H,W] whose neighbours and channels depend on each other.
std::vector<Datum> DependentPictures(int count, int height, int width) {
  std::mt19937 random(7);  // NOLINT: the same pictures each time
  std::uniform_int_distribution<int> draw(0, 60);
  std::vector<Datum> datums;
  for (int n = 0; n < count; ++n) {
    Datum datum;
    datum.set_channels(2);
    datum.set_height(height);
    datum.set_width(width);
    std::string pixels;
    int before = 100;
    for (int i = 0; i < 2 * height * width; ++i) {
      before = (before + 80 + draw(random)) / 2;
      pixels.push_back(static_cast<char>(before));
    }
    datum.set_data(pixels);
    datums.push_back(datum);
  }
  return datums;
}

// Returns what the filters [F, C k k] make of each patch of normalised pixels, patch after patch.
std::vector<double> Filtered(const std::vector<Datum>& datums, const Whitening& w) {
  std::vector<double> values;
  const auto size = static_cast<int64_t>(w.variances.size());
  for (const Datum& datum : datums) {
    for (int64_t y = 0; y + w.kernel <= datum.height(); ++y) {
      for (int64_t x = 0; x + w.kernel <= datum.width(); ++x) {
        for (int64_t f = 0; f < size; ++f) {
          double sum = 0;
          for (int64_t i = 0; i < size; ++i) {
            const int64_t c = i / (w.kernel * w.kernel);
            const int64_t row = y + i / w.kernel % w.kernel;
            const int64_t at = (c * datum.height() + row) * datum.width() + x + i % w.kernel;
            const double pixel = static_cast<uint8_t>(datum.data()[static_cast<size_t>(at)]);
            const auto channel = static_cast<size_t>(c);
            sum += w.filters[static_cast<size_t>(f * size + i)] * (pixel - w.mean[channel]) / w.deviation[channel];
          }
          values.push_back(sum);
        }
      }
    }
  }
  return values;
}

TEST_F(WhiteningTest, PatchesComeOutUncorrelatedWithVarianceOne) {
  const std::vector<Datum> datums = DependentPictures(20, 6, 5);
  WriteDatabase(At("db"), datums);
  const Whitening w = ComputeWhitening(At("db"), {.kernel = 2, .eps = 1e-12});
  ASSERT_EQ(w.variances.size(), 8U);
  EXPECT_TRUE(std::is_sorted(w.variances.rbegin(), w.variances.rend()));
  EXPECT_GT(w.variances[0], 2 * w.variances[7]) << "the pictures' pixels should depend on each other";
  const std::vector<double> values = Filtered(datums, w);
  const auto patches = static_cast<double>(values.size()) / 8;
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double product = 0;
      double mean_i = 0;
      double mean_j = 0;
      for (size_t at = 0; at < values.size(); at += 8) {
        product += values[at + i] * values[at + j];
        mean_i += values[at + i];
        mean_j += values[at + j];
      }
      EXPECT_NEAR(product / patches - mean_i / patches * (mean_j / patches), i == j ? 1 : 0, 1e-6) << i << ", " << j;
    }
  }
}

// The eps bounds how much a direction without variance is amplified; each filter's largest number is positive.
TEST_F(WhiteningTest, AFlatDirectionIsAmplifiedByEpsAlone) {
  Datum datum = RawDatum(1, 1, 4, 0, 0);
  datum.set_data(std::string{0, 0, 100, 100});
  WriteDatabase(At("db"), {datum});
  // Patches of one pixel: 0 and 100, mean 50, deviation 50.
  const Whitening w = ComputeWhitening(At("db"), {.kernel = 1, .eps = 0.25});
  EXPECT_NEAR(w.mean[0], 50, 1e-12);
  EXPECT_NEAR(w.deviation[0], 50, 1e-12);
  EXPECT_NEAR(w.filters[0], 1 / std::sqrt(1.25), 1e-12);
  const Whitening given = ComputeWhitening(At("db"), {.kernel = 1, .eps = 0.25, .mean = {0}, .deviation = {100}});
  EXPECT_NEAR(given.filters[0], 1 / std::sqrt(0.5), 1e-12);
}

TEST_F(WhiteningTest, WhatCannotBeWhitenedIsRefused) {
  WriteDatabase(At("flat"), {RawDatum(1, 1, 1, 9, 0)});
  EXPECT_THAT(ErrorOf([&] { ComputeWhitening(At("flat"), {.kernel = 1}); }),
              testing::HasSubstr("the deviation of channel 0 is 0"));
  WriteDatabase(At("small"), {RawDatum(1, 2, 3, 0, 0)});
  EXPECT_THAT(ErrorOf([&] { ComputeWhitening(At("small"), {.kernel = 3}); }),
              testing::HasSubstr("is smaller than the kernel: 2x3"));
  WriteDatabase(At("mixed"), {RawDatum(1, 2, 2, 0, 0), RawDatum(3, 2, 2, 0, 0)});
  EXPECT_THAT(ErrorOf([&] { ComputeWhitening(At("mixed"), {}); }),
              testing::HasSubstr("has 3 channels, the first record 1"));
  EXPECT_THAT(ErrorOf([&] {
                ComputeWhitening(At("small"), {.mean = {1, 2, 3}});
              }),
              testing::HasSubstr("--mean has 3 values, the records 1 channels"));
}

}  // namespace
}  // namespace moka
