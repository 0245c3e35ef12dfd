// Orders: permutations, mixing measured by chi-square, ranks without overlap.
#include "data/pipeline/sampler.h"

#include <cmath>
#include <map>
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

// Returns the statistic of the ten classes in the first 1,000 of 50,000 class-sorted records; a fair draw stays below
// 27.9 with probability 0.999 (nine degrees of freedom) and is 9 on average.
double ChiSquare(SamplerOptions options) {
  options.records = 50000;
  std::array<int, 10> counts{};
  for (const uint64_t record : Records(options, 1000)) ++counts[record / 5000];
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 100.0) * (count - 100.0) / 100.0;
  return chi_square;
}

TEST(Sampler, ShuffleMixesClassSortedRecords) {
  for (const uint64_t seed : {1, 2, 3}) {
    EXPECT_LT(ChiSquare({.order = SamplerOptions::Order::kShuffled, .seed = seed}), 27.9);
  }
}

// Mean distance of neighbours in parts of the data set: 1/3 when any record may follow any other.
double NeighborDistance(SamplerOptions options) {
  options.records = 50000;
  const auto order = Records(options, 20000);
  double sum = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    sum += std::fabs(static_cast<double>(order[i]) - static_cast<double>(order[i - 1]));
  }
  return sum / 50000 / static_cast<double>(order.size() - 1);
}

SamplerOptions Windowed(int64_t block, int64_t window, uint64_t seed) {
  return {.order = SamplerOptions::Order::kShuffled, .seed = seed, .block = block, .window = window};
}

// The fewer blocks the first samples come from, the less their classes are mixed: the numbers that the Data layer's
// page names. With as many open blocks as samples it is the exact shuffle's.
TEST(Sampler, WindowsMixAsWellAsTheirNumberOfBlocksLets) {
  const auto mean = [](auto measure, int64_t block, int64_t window) {
    double sum = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) sum += measure(Windowed(block, window, seed));
    return sum / 20;
  };
  const double few = mean(ChiSquare, 100, 16);
  const double many = mean(ChiSquare, 16, 512);
  EXPECT_NEAR(few, 400, 150);
  EXPECT_LT(many, 27.9);
  EXPECT_NEAR(mean(ChiSquare, 0, 16), 9, 4);
  EXPECT_NEAR(NeighborDistance(Windowed(100, 16, 1)) * 3, 0.95, 0.03);
  EXPECT_NEAR(NeighborDistance(Windowed(16, 512, 1)) * 3, 1, 0.02);
  EXPECT_NEAR(NeighborDistance(Windowed(0, 16, 1)) * 3, 1, 0.02);
}

TEST(Sampler, WindowedEpochsAreExactAndReadFromFewBlocks) {
  for (const int64_t records : {101, 997, 1000}) {
    for (const int64_t block : {1, 3, 10, 64}) {
      for (const int64_t window : {1, 2, 5, 16}) {
        SamplerOptions options = Windowed(block, window, 7);
        options.records = records;
        const bool is_windowed = (records + block - 1) / block > window;
        const auto order = Records(options, 2 * records);
        for (const int64_t epoch : {0, 1}) {
          const auto begin = order.begin() + epoch * records;
          EXPECT_EQ(std::set<uint64_t>(begin, begin + records).size(), static_cast<size_t>(records));
          for (int64_t at = 0; is_windowed && at + block <= records; at += 7) {
            std::set<uint64_t> blocks;
            for (int64_t i = at; i < at + block; ++i) blocks.insert(begin[i] / static_cast<uint64_t>(block));
            // As many records as a block has lie in at most two steps, or in three about the short block's.
            EXPECT_LE(blocks.size(), static_cast<size_t>(window + 2)) << records << " " << block << " " << at;
          }
        }
        EXPECT_FALSE(std::equal(order.begin(), order.begin() + records, order.begin() + records));
      }
    }
  }
}

TEST(Sampler, GroupsStayTogetherInWindows) {
  SamplerOptions options = Windowed(20, 3, 9);
  options.records = 402;
  options.group = 4;
  const auto order = Records(options, 400);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i] % 4, i % 4);
  EXPECT_EQ(std::set<uint64_t>(order.begin(), order.end()).size(), 400U);
}

// Three classes of 2, 30 and 5 records.
RecordsByClass ThreeClasses() {
  RecordsByClass classes{.records = {}, .begins = {0, 2, 32, 37}};
  for (uint32_t i = 0; i < 37; ++i) classes.records.push_back(i);
  return classes;
}

TEST(Sampler, ClassesComeEquallyOftenAndTheirRecordsToo) {
  const SamplerOptions options{.records = 37, .seed = 4, .draw = DrawClassesEqually(ThreeClasses())};
  const Sampler sampler(options);
  std::map<uint64_t, int> uses;
  std::set<std::pair<uint64_t, uint64_t>> ids;
  for (int64_t n = 0; n < 900; ++n) {
    const SampleId id = sampler.At(n);
    ++uses[id.record];
    EXPECT_TRUE(ids.insert({id.epoch, id.record}).second) << "random changes of sample " << n << " were made before";
  }
  for (uint64_t i = 0; i < 37; ++i) EXPECT_EQ(uses[i], i < 2 ? 150 : i < 32 ? 10 : 60) << i;
  for (int64_t round = 0; round < 300; ++round) {
    std::set<int> classes;
    for (int64_t i = 0; i < 3; ++i) {
      const uint64_t record = sampler.At(round * 3 + i).record;
      classes.insert(record < 2 ? 0 : record < 32 ? 1 : 2);
    }
    EXPECT_EQ(classes.size(), 3U);
  }
}

TEST(Sampler, WeightsAreKept) {
  const std::vector<double> weights = {0, 1, 2.5, 0.5, 6};
  constexpr int64_t kDraws = 40000;
  const auto counts_of = [](const SamplerOptions& options) {
    std::array<double, 5> counts{};
    for (const uint64_t record : Records(options, kDraws)) ++counts[record];
    return counts;
  };
  const auto counts = counts_of({.records = 5, .seed = 8, .draw = DrawRecordsByWeight(weights)});
  // Classes of two records, of three and of none.
  const auto by_class =
      counts_of({.records = 5,
                 .seed = 8,
                 .draw = DrawClassesByWeight({.records = {0, 3, 1, 2, 4}, .begins = {0, 2, 5, 5}}, {1, 3, 0})});
  const std::array<double, 5> class_parts = {0.125, 0.25, 0.25, 0.125, 0.25};
  double chi_square = 0;
  double class_chi_square = 0;
  for (size_t i = 0; i < 5; ++i) {
    const double expected = weights[i] / 10 * kDraws;
    if (i > 0) chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    const double class_expected = class_parts[i] * kDraws;
    class_chi_square += (by_class[i] - class_expected) * (by_class[i] - class_expected) / class_expected;
  }
  EXPECT_EQ(counts[0], 0);
  EXPECT_LT(chi_square, 16.3);        // 0.999 of three degrees of freedom
  EXPECT_LT(class_chi_square, 18.5);  // of four
}

TEST(Sampler, RanksShareADrawToo) {
  SamplerOptions options{.records = 37, .seed = 4, .draw = DrawClassesEqually(ThreeClasses())};
  const auto expected = Records(options, 300);
  options.world = 4;
  for (options.rank = 0; options.rank < 4; ++options.rank) {
    const auto mine = Records(options, 75);
    for (size_t n = 0; n < 75; ++n) ASSERT_EQ(mine[n], expected[n * 4 + static_cast<size_t>(options.rank)]);
  }
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
