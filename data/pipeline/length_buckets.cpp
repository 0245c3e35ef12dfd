// Whole batches of the buckets come in a permuted order, and the rests of buckets make up further ones; all is computed
// from the position, without a table of the epoch.
#include "data/pipeline/length_buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/rng.h"

namespace moka {
namespace {

constexpr uint64_t kBatchSeed = 0xBA7C;  // keeps the batches' order apart from the records'

// The place that holds the i-th, where begins[k] come before place k.
uint64_t PlaceOf(const std::vector<uint64_t>& begins, uint64_t i) {
  return static_cast<uint64_t>(std::ranges::upper_bound(begins, i) - begins.begin()) - 1;
}

class LengthOrder final : public RecordDraw {
 public:
  explicit LengthOrder(const std::vector<int64_t>& lengths) : records_(lengths.size()) {
    Require(!lengths.empty(), "LengthOrder: a record");
    std::iota(records_.begin(), records_.end(), uint32_t{0});
    std::ranges::stable_sort(records_, {}, [&](uint32_t record) { return lengths[record]; });
  }
  SampleId At(uint64_t position, uint64_t) const override {
    return {position / records_.size(), records_[position % records_.size()]};
  }

 private:
  std::vector<uint32_t> records_;
};

}  // namespace

std::unique_ptr<const RecordDraw> InOrderOfLength(const std::vector<int64_t>& lengths) {
  return std::make_unique<LengthOrder>(lengths);
}

LengthBuckets::LengthBuckets(RecordsByClass buckets, int64_t batch)
    : buckets_(std::move(buckets)), batch_(static_cast<uint64_t>(batch)) {
  Require(!buckets_.records.empty() && batch >= 1, "LengthBuckets: a record and a batch");
  uint64_t broken = buckets_.classes();  // the last bucket with a whole batch
  for (uint64_t i = 0; i < buckets_.classes(); ++i) {
    if (buckets_.size(i) >= batch_) broken = i;
  }
  for (const bool breaks : {false, true}) {
    Layout& layout = layouts_.at(breaks ? 1 : 0);
    layout = {.batches = {0}, .rests = {0}};
    for (uint64_t i = 0; i < buckets_.classes(); ++i) {
      const uint64_t batches = buckets_.size(i) / batch_ - (breaks && i == broken ? 1 : 0);
      layout.batches.push_back(layout.batches.back() + batches);
      layout.rests.push_back(layout.rests.back() + buckets_.size(i) - batches * batch_);
    }
  }
}

uint64_t LengthBuckets::Permuted(uint64_t bucket, uint64_t i, uint64_t epoch, uint64_t seed) const {
  const Permutation order(buckets_.size(bucket), seed, epoch << 32U ^ bucket);
  return buckets_.records[buckets_.begins[bucket] + order(i)];
}

uint64_t LengthBuckets::Rest(const Layout& layout, uint64_t i, uint64_t epoch, uint64_t seed) const {
  const uint64_t bucket = PlaceOf(layout.rests, i);
  const uint64_t whole = (layout.batches[bucket + 1] - layout.batches[bucket]) * batch_;
  return Permuted(bucket, whole + i - layout.rests[bucket], epoch, seed);
}

uint64_t LengthBuckets::Whole(const Layout& layout, uint64_t batch, uint64_t i, uint64_t epoch, uint64_t seed) const {
  const uint64_t bucket = PlaceOf(layout.batches, batch);
  return Permuted(bucket, (batch - layout.batches[bucket]) * batch_ + i, epoch, seed);
}

SampleId LengthBuckets::At(uint64_t position, uint64_t seed) const {
  const uint64_t records = buckets_.records.size();
  const uint64_t epoch = position / records;
  const uint64_t at = position % records;
  const uint64_t head = std::min((batch_ - epoch * records % batch_) % batch_, records);
  const uint64_t tail = (records - head) % batch_;
  const Layout& layout = layouts_.at(layouts_[0].rests.back() < head + tail ? 1 : 0);
  const uint64_t rests = layout.rests.back();
  if (at < head) return {epoch, Rest(layout, rests - tail - head + at, epoch, seed)};
  if (at >= records - tail) return {epoch, Rest(layout, rests - (records - at), epoch, seed)};
  const uint64_t batches = (records - head - tail) / batch_;
  const uint64_t batch = Permutation(batches, seed ^ kBatchSeed, epoch)((at - head) / batch_);
  const uint64_t i = (at - head) % batch_;
  const uint64_t whole = layout.batches.back();
  if (batch < whole) return {epoch, Whole(layout, batch, i, epoch, seed)};
  return {epoch, Rest(layout, (batch - whole) * batch_ + i, epoch, seed)};
}

RecordsByClass BucketsOf(const std::vector<int64_t>& lengths, const std::vector<int64_t>& bounds) {
  std::vector<std::vector<uint32_t>> buckets(bounds.size() + 1);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto bucket = static_cast<size_t>(std::ranges::lower_bound(bounds, lengths[i]) - bounds.begin());
    buckets[bucket].push_back(static_cast<uint32_t>(i));
  }
  RecordsByClass classes{.records = {}, .begins = {0}};
  for (const std::vector<uint32_t>& bucket : buckets) {
    classes.records.insert(classes.records.end(), bucket.begin(), bucket.end());
    classes.begins.push_back(classes.records.size());
  }
  return classes;
}

}  // namespace moka
