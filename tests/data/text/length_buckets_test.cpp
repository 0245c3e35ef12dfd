// The order of buckets: exact, pure, and the same for any number of ranks.
#include "data/pipeline/length_buckets.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/rng.h"
#include "core/text.h"
#include "data/pipeline/sampler.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

std::vector<int64_t> Lengths(RandomStream& random, int64_t records) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < records; ++i) lengths.push_back(2 + static_cast<int64_t>(random.Below(40)));
  return lengths;
}

std::vector<int64_t> Bounds(RandomStream& random) {
  std::set<int64_t> bounds;
  for (uint64_t i = random.Below(7); i > 0; --i) bounds.insert(static_cast<int64_t>(random.Below(50)));
  return {bounds.begin(), bounds.end()};
}

size_t BucketOf(const std::vector<int64_t>& bounds, int64_t length) {
  return static_cast<size_t>(std::ranges::lower_bound(bounds, length) - bounds.begin());
}

TEST(LengthBuckets, RecordsGoToTheFirstBoundThatHoldsThem) {
  const RecordsByClass buckets = BucketsOf({5, 3, 9, 4, 20, 5}, {4, 5, 7, 9});
  EXPECT_THAT(buckets.records, testing::ElementsAre(1, 3, 0, 5, 2, 4));
  EXPECT_THAT(buckets.begins, testing::ElementsAre(0, 2, 4, 4, 5, 6));
}

// Every record once an epoch; all batches but the rests' and those that two epochs share are of one bucket, and of
// these there are as many as the buckets allow.
TEST(LengthBuckets, EpochsAreExactAndBatchesPure) {
  RandomStream random(11, 0);
  for (int round = 0; round < 300; ++round) {
    const auto records = static_cast<int64_t>(1 + random.Below(round % 3 == 0 ? 20 : 400));
    const auto batch = static_cast<int64_t>(1 + random.Below(40));
    const std::vector<int64_t> lengths = Lengths(random, records);
    const std::vector<int64_t> bounds = Bounds(random);
    const LengthBuckets order(BucketsOf(lengths, bounds), batch);
    const std::string what = StrCat("round ", round, ": ", records, " records, batch ", batch);
    std::map<size_t, int64_t> sizes;
    for (const int64_t length : lengths) ++sizes[BucketOf(bounds, length)];
    int64_t possible = 0;
    int64_t below = 0;  // of buckets' rests
    for (const auto& [bucket, size] : sizes) {
      possible += size / batch;
      below += size % batch;
    }
    constexpr int64_t kEpochs = 4;
    std::vector<uint64_t> shown;
    for (int64_t n = 0; n < kEpochs * records; ++n) {
      const SampleId id = order.At(static_cast<uint64_t>(n), 5);
      ASSERT_EQ(id.epoch, static_cast<uint64_t>(n / records)) << what;
      shown.push_back(id.record);
    }
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const auto begin = shown.begin() + epoch * records;
      ASSERT_EQ(std::set<uint64_t>(begin, begin + records).size(), static_cast<size_t>(records)) << what;
      int64_t pure = 0;
      const int64_t first = (epoch * records + batch - 1) / batch;
      for (int64_t b = first; (b + 1) * batch <= (epoch + 1) * records; ++b) {
        std::set<size_t> buckets;
        for (int64_t i = 0; i < batch; ++i) {
          buckets.insert(BucketOf(bounds, lengths[shown[static_cast<size_t>(b * batch + i)]]));
        }
        pure += buckets.size() == 1 ? 1 : 0;
      }
      const int64_t shared = records - std::max<int64_t>((epoch + 1) * records / batch - first, 0) * batch;
      ASSERT_GE(pure, possible - (below < shared ? 1 : 0)) << what << ", epoch " << epoch;
    }
  }
}

TEST(LengthBuckets, BatchesComeInARandomOrderThatIsNewEachEpoch) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 400; ++i) lengths.push_back(i / 100);
  const LengthBuckets order(BucketsOf(lengths, {0, 1, 2}), 10);
  const auto buckets = [&](uint64_t epoch, uint64_t seed) {
    std::vector<uint64_t> all;
    for (uint64_t b = 0; b < 40; ++b) all.push_back(order.At(epoch * 400 + b * 10, seed).record / 100);
    return all;
  };
  const std::vector<uint64_t> first = buckets(0, 1);
  EXPECT_NE(first, buckets(1, 1));
  EXPECT_NE(first, buckets(0, 2));
  EXPECT_EQ(first, buckets(0, 1));
  for (uint64_t bucket = 0; bucket < 4; ++bucket) {
    EXPECT_EQ(std::ranges::count(first, bucket), 10);
    // All ten in one half of the epoch's 40 places: a chance of 0.0002 for each bucket.
    EXPECT_LT(std::count(first.begin(), first.begin() + 20, bucket), 10) << bucket;
  }
  // Within a bucket pairs meet others in the next epoch.
  const auto mates = [&](uint64_t epoch) {
    std::set<uint64_t> records;
    for (uint64_t i = 0; i < 10; ++i) records.insert(order.At(epoch * 400 + i, 1).record);
    return records;
  };
  EXPECT_NE(mates(0), mates(1));
}

// Tests take every record once, the shortest first and those of one length as they stand, whatever the seed.
TEST(LengthOrder, IsThatOfLengths) {
  const auto order = InOrderOfLength({5, 3, 9, 3, 20, 5});
  std::vector<uint64_t> records;
  std::vector<uint64_t> epochs;
  for (uint64_t i = 0; i < 8; ++i) {
    const SampleId at = order->At(i, i);
    records.push_back(at.record);
    epochs.push_back(at.epoch);
  }
  EXPECT_THAT(records, testing::ElementsAre(1, 3, 0, 5, 2, 4, 1, 3));
  EXPECT_THAT(epochs, testing::ElementsAre(0, 0, 0, 0, 0, 0, 1, 1));
}

// Batch b of rank r is batch b * world + r of the order of one rank.
TEST(LengthBuckets, RanksTakeWholeBatchesOfOneOrder) {
  RandomStream random(3, 1);
  for (int round = 0; round < 40; ++round) {
    const auto records = static_cast<int64_t>(1 + random.Below(200));
    const auto batch = static_cast<int64_t>(1 + random.Below(30));
    const auto draw = std::make_shared<LengthBuckets>(BucketsOf(Lengths(random, records), Bounds(random)), batch);
    SamplerOptions options{.records = records, .seed = 9, .group = batch, .draw = draw};
    options.order = SamplerOptions::Order::kShuffled;
    const Sampler whole(options);
    for (options.world = 1; options.world <= 5; ++options.world) {
      for (options.rank = 0; options.rank < options.world; ++options.rank) {
        const Sampler mine(options);
        for (int64_t n = 0; n < 3 * batch + 1; ++n) {
          const int64_t global = (n / batch * options.world + options.rank) * batch + n % batch;
          ASSERT_EQ(mine.At(n).record, whole.At(global).record);
          ASSERT_EQ(mine.At(n).epoch, whole.At(global).epoch);
        }
      }
    }
  }
}

}  // namespace
}  // namespace moka
