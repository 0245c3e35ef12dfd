#include "data/sampler.h"

#include <set>

#include "tests/data/data_fixture.h"

namespace moka {
namespace {

std::vector<uint64_t> Records(const SamplerOptions& options, int64_t count) {
  const Sampler sampler(options);
  std::vector<uint64_t> records;
  for (int64_t n = 0; n < count; ++n) records.push_back(sampler.At(n).record);
  return records;
}

TEST(Sampler, SequentialWrapsLikeCaffe) {
  EXPECT_THAT(Records({.records = 3}, 7), testing::ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_THAT(Records({.records = 3, .skip = 2}, 4), testing::ElementsAre(2, 0, 1, 2));
}

TEST(Sampler, ShuffledEpochsAreDifferentPermutations) {
  const auto order = Records({.records = 1000, .order = SamplerOptions::Order::kShuffled, .seed = 5}, 2000);
  const std::set<uint64_t> first(order.begin(), order.begin() + 1000);
  const std::set<uint64_t> second(order.begin() + 1000, order.end());
  EXPECT_EQ(first.size(), 1000U);
  EXPECT_EQ(second.size(), 1000U);
  EXPECT_FALSE(std::equal(order.begin(), order.begin() + 1000, order.begin() + 1000));
  EXPECT_EQ(order, Records({.records = 1000, .order = SamplerOptions::Order::kShuffled, .seed = 5}, 2000));
  EXPECT_NE(order, Records({.records = 1000, .order = SamplerOptions::Order::kShuffled, .seed = 6}, 2000));
}

// Class-sorted records, shuffled: the first 1,000 of 50,000 must hold all ten classes about equally (chi-square with
// nine degrees of freedom stays below 27.9 with probability 0.999).
TEST(Sampler, ShuffleMixesClassSortedRecords) {
  const auto order = Records({.records = 50000, .order = SamplerOptions::Order::kShuffled, .seed = 1}, 1000);
  std::array<int, 10> counts{};
  for (const uint64_t record : order) ++counts[record / 5000];
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 100.0) * (count - 100.0) / 100.0;
  EXPECT_LT(chi_square, 27.9);
}

TEST(Sampler, RanksShareTheGlobalOrderWithoutOverlap) {
  const SamplerOptions whole{.records = 101, .order = SamplerOptions::Order::kShuffled, .seed = 3};
  const auto expected = Records(whole, 300);
  for (const int64_t world : {2, 3, 4}) {
    for (int64_t rank = 0; rank < world; ++rank) {
      SamplerOptions options = whole;
      options.rank = rank;
      options.world = world;
      const auto mine = Records(options, 300 / world);
      for (size_t n = 0; n < mine.size(); ++n) {
        ASSERT_EQ(mine[n], expected[n * static_cast<size_t>(world) + static_cast<size_t>(rank)]);
      }
    }
  }
}

TEST(Sampler, RefusesNoRecordsAndWrongRanks) {
  EXPECT_EQ(ErrorOf([] { Sampler sampler({.records = 0}); }), "the data set has no records");
  EXPECT_EQ(ErrorOf([] { Sampler sampler({.records = 5, .rank = 2, .world = 2}); }), "rank 2 of 2 ranks");
}

}  // namespace
}  // namespace moka
