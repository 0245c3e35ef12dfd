// Computes the record of a position without a table: first the step in which the position lies, then the part of an
// open block, each by arithmetic on what comes before it.
#include "data/pipeline/windowed_order.h"

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"

namespace moka {
namespace {

// Keep the uses of random numbers apart.
constexpr uint64_t kGapSeed = 0x6A9;
constexpr uint64_t kBlockSeed = 0xB10C;
constexpr uint64_t kStepSeed = 0x57E9;

uint64_t StreamFor(uint64_t epoch, uint64_t i) { return epoch << 40U ^ i; }

}  // namespace

WindowedOrder::WindowedOrder(uint64_t records, uint64_t block, uint64_t window, uint64_t seed)
    : block_(block), window_(window), blocks_((records + block - 1) / block), seed_(seed) {
  Require(window >= 1 && IsWorthwhile(records, block, window), "WindowedOrder: more blocks than are open at once");
  last_ = records - (blocks_ - 1) * block;
}

// The part p with Before(p) <= i < Before(p + 1). Requires: i < n.
uint64_t WindowedOrder::PartOf(uint64_t i, uint64_t n) const { return ((i + 1) * window_ - 1) / n; }

// The short block's parts are missing records in steps gap, gap + 1, .. (modulo blocks).
uint64_t WindowedOrder::StepStart(uint64_t step, uint64_t gap) const {
  const auto missing = [&](uint64_t part) { return Before(part, block_) - Before(part, last_); };
  uint64_t less = 0;
  if (step > gap) less = missing(std::min(step - gap, window_));
  const uint64_t end = gap + window_;
  if (end > blocks_) {  // parts from blocks_ - gap on lie in the steps from 0 on
    const uint64_t wrapped = std::min(step, end - blocks_);
    less += missing(blocks_ - gap + wrapped) - missing(blocks_ - gap);
  }
  return step * block_ - less;
}

uint64_t WindowedOrder::At(uint64_t epoch, uint64_t position) const {
  // Where the short block opens is drawn, the others are permuted over the remaining places.
  const uint64_t gap = RandomStream(seed_ ^ kGapSeed, epoch).Below(blocks_);
  uint64_t step = position / block_;  // steps differ from a block's records by the short block's parts, so one off
  while (StepStart(step, gap) > position) --step;
  while (step + 1 < blocks_ && StepStart(step + 1, gap) <= position) ++step;
  const uint64_t start = StepStart(step, gap);
  const uint64_t end = step + 1 < blocks_ ? StepStart(step + 1, gap) : (blocks_ - 1) * block_ + last_;
  uint64_t i = Permutation(end - start, seed_ ^ kStepSeed, StreamFor(epoch, step))(position - start);

  // The step's records: those of full blocks by part, then those of the short block if it is open.
  const uint64_t short_part = (step + blocks_ - gap) % blocks_;
  uint64_t part = short_part;
  uint64_t in_block = 0;
  const bool has_short = short_part < window_;
  const uint64_t short_size = has_short ? Before(short_part + 1, block_) - Before(short_part, block_) : 0;
  const uint64_t full = block_ - short_size;
  if (i >= full) {
    in_block = Before(short_part, last_) + i - full;
  } else {
    if (has_short && i >= Before(short_part, block_)) i += short_size;
    part = PartOf(i, block_);
    in_block = i;
  }
  const uint64_t place = (step + blocks_ - part) % blocks_;
  const bool is_last = place == gap;
  uint64_t block = blocks_ - 1;
  if (!is_last) block = Permutation(blocks_ - 1, seed_ ^ kBlockSeed, epoch)(place - (place > gap ? 1 : 0));
  const Permutation within(is_last ? last_ : block_, seed_, StreamFor(epoch, block));
  return block * block_ + within(in_block);
}

}  // namespace moka
