// The order of samples: a pure function of (seed, epoch, position). Sample n of rank r is the global sample
// n * world + r (of groups of records likewise), so ranks never overlap, no sample is missed, and the global order does
// not depend on their number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/pipeline/weighted_draw.h"
#include "data/pipeline/windowed_order.h"
#include "data/transform/transform.h"

namespace moka {

struct SamplerOptions {
  int64_t records = 0;
  enum class Order { kSequential, kShuffled } order = Order::kSequential;
  uint64_t seed = 0;
  int64_t rank = 0;
  int64_t world = 1;
  int64_t skip = 0;  // samples left out at the very start (rand_skip)
  // That many records stay together, in a rank's samples too; shuffled, those left over at the end are not shown. Of a
  // draw: as many of its positions.
  int64_t group = 1;
  // Samples that follow each other before the next rank's come, where no group asks for more.
  int64_t run = 1;
  // Shuffled: blocks of so many consecutive records, `window` of them open at once (data/pipeline/windowed_order.h); 0:
  // any record may follow any other.
  int64_t block = 0;
  int64_t window = 16;
  // In place of an order: which record comes at each position, `records` of them an epoch.
  std::shared_ptr<const RecordDraw> draw = nullptr;
};

class Sampler {
 public:
  // Errors: kBadData without records, kConfig for a rank outside [0, world) .
  explicit Sampler(const SamplerOptions& options);
  // The record and epoch of this rank's n-th sample; epochs follow each other without a gap. Where records are drawn,
  // the epoch is a number that differs each time a record comes. Requires: n >= 0.
  SampleId At(int64_t n) const;
  // The same of all ranks' n-th sample.
  SampleId OfAll(int64_t n) const;
  const SamplerOptions& options() const { return options_; }

 private:
  SamplerOptions options_;
  std::optional<WindowedOrder> windowed_;  // of groups
};

}  // namespace moka
