// An order in which the records of each batch are of nearly one length: records lie in buckets by their lengths, and a
// batch takes all of its records from one, so far as they go. Every record comes once an epoch, and an epoch follows
// another without a gap, which leaves to each epoch of R records, with batches of B:
//
//   | head | whole batches in a random order ......................... | tail |
//
// The head fills the batch that the epoch before has begun, the tail begins the next one's; only where R is a multiple
// of B there is neither. A bucket's records are permuted and cut into batches; what is left of each bucket is joined,
// bucket after bucket, to the rests: their front makes further batches, of neighbouring buckets, and the last of them,
// the longest, make tail and head. Where the rests are too few for both, one batch of the last bucket that has one
// joins them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/pipeline/weighted_draw.h"

namespace moka {

class LengthBuckets final : public RecordDraw {
 public:
  // The records by bucket; some may be empty. Requires: a record, 1 <= batch, positions that begin at a batch.
  LengthBuckets(RecordsByClass buckets, int64_t batch);
  SampleId At(uint64_t position, uint64_t seed) const override;

 private:
  // How many whole batches the buckets have, and how many records are left over.
  struct Layout {
    std::vector<uint64_t> batches;  // in the buckets before bucket i, one a bucket and the end
    std::vector<uint64_t> rests;    // likewise: records
  };
  // A record of an epoch's rests, or the i-th of a whole batch.
  uint64_t Rest(const Layout& layout, uint64_t i, uint64_t epoch, uint64_t seed) const;
  uint64_t Whole(const Layout& layout, uint64_t batch, uint64_t i, uint64_t epoch, uint64_t seed) const;
  // The i-th record of a bucket in the epoch's order.
  uint64_t Permuted(uint64_t bucket, uint64_t i, uint64_t epoch, uint64_t seed) const;

  RecordsByClass buckets_;
  uint64_t batch_;
  std::array<Layout, 2> layouts_;  // as they lie, and with one batch more among the rests
};

// For tests: every record by its length, the shortest first; those of one length in their own order. Requires: a record,
// fewer than 2^32.
std::unique_ptr<const RecordDraw> InOrderOfLength(const std::vector<int64_t>& lengths);

// Records by the first bound that is not less than their length; the last bucket holds what is longer than all bounds.
// Requires: bounds ascending, fewer than 2^32 records.
RecordsByClass BucketsOf(const std::vector<int64_t>& lengths, const std::vector<int64_t>& bounds);

}  // namespace moka
