// Philox's published known answers, moments of the distributions, and permutations that are bijections.
#include "core/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace moka {
namespace {

TEST(PhiloxTest, MatchesThePublishedKnownAnswers) {
  // Random123's kat_vectors for philox4x32-10.
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(Philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (std::array<uint32_t, 4>{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(Philox({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
            (std::array<uint32_t, 4>{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(RandomStreamTest, ContinuesFromItsPosition) {
  RandomStream whole(7, 3);
  for (int i = 0; i < 11; ++i) whole.Bits();
  RandomStream resumed(7, 3, whole.position());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(whole.Bits(), resumed.Bits());
  EXPECT_EQ(RandomStream(7, 3).Bits(), RandomWord(7, 3, 0));
}

TEST(RandomStreamTest, MomentsAreThoseOfTheDistributions) {
  constexpr int kDraws = 200000;
  RandomStream stream(1, 1);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.Normal(2, 3);
    sum += x;
    squares += (x - 2) * (x - 2);
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kDraws, 2, 5 * 3 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 9, 5 * 9 * std::sqrt(2.0 / kDraws));
  std::vector<int> counts(7, 0);
  for (int i = 0; i < kDraws; ++i) ++counts[stream.Below(7)];
  double chi2 = 0;
  for (const int count : counts) chi2 += std::pow(count - kDraws / 7.0, 2) / (kDraws / 7.0);
  EXPECT_LT(chi2, 30);  // 6 degrees of freedom: above 30 once in 25,000 seeds
}

TEST(PermutationTest, IsABijectionOfEveryCount) {
  for (uint64_t count = 1; count <= 300; ++count) {
    const Permutation permutation(count, 11, 4);
    std::vector<bool> seen(count, false);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t j = permutation(i);
      ASSERT_LT(j, count);
      EXPECT_FALSE(seen[j]) << count << " repeats " << j;
      seen[j] = true;
    }
  }
}

// The same rows stand in tests/tools/scripts/peers_test.py: a peer keeps the same records back.
TEST(PermutationTest, KeepsTheOrderThatCheckpointsAndPeersCountOn) {
  const auto first = [](const Permutation& permutation, uint64_t count) {
    std::vector<uint64_t> places;
    for (uint64_t i = 0; i < count; ++i) places.push_back(permutation(i));
    return places;
  };
  EXPECT_EQ(first(Permutation(20, 0x7A11DA7E, 0), 10), (std::vector<uint64_t>{1, 10, 6, 2, 5, 14, 0, 16, 4, 9}));
  EXPECT_EQ(first(Permutation(5, 0x123456789ABCDEF, (7ULL << 33) + 3), 5), (std::vector<uint64_t>{3, 1, 2, 0, 4}));
}

TEST(PermutationTest, StreamsDifferAndFirstItemsSpreadEvenly) {
  constexpr uint64_t kCount = 1000;
  constexpr int kEpochs = 2000;
  std::vector<int> first_tenth(10, 0);
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) ++first_tenth[Permutation(kCount, 5, epoch)(0) / (kCount / 10)];
  double chi2 = 0;
  for (const int count : first_tenth) chi2 += std::pow(count - kEpochs / 10.0, 2) / (kEpochs / 10.0);
  EXPECT_LT(chi2, 40);  // 9 degrees of freedom
}

}  // namespace
}  // namespace moka
