// A shuffle that reads from a few places at once, for sets that do not fit into memory. Records lie in blocks that
// follow each other in a new order each epoch; `window` blocks are open at a time, and as one closes the next opens:
//
//   step t draws from      block t  block t-1  ...  block t-window+1      (places in the epoch's order, modulo blocks)
//   of each its part       0        1          ...  window-1
//
// A block's records are first shuffled and then cut into `window` parts of nearly one size, so that the parts of a step
// make up one block's records, in an order drawn anew. All of it are keyed bijections: a place in an epoch gives its
// record in constant time without a table, and each record comes once an epoch.
#pragma once

#include <cstdint>

namespace moka {

class WindowedOrder {
 public:
  // Requires: 1 <= block, 1 <= window, more than `window` blocks (IsWorthwhile).
  WindowedOrder(uint64_t records, uint64_t block, uint64_t window, uint64_t seed);
  // If there are no more blocks than are open at once, any record may follow any other: the exact shuffle is no worse.
  static bool IsWorthwhile(uint64_t records, uint64_t block, uint64_t window) {
    return block > 0 && (records + block - 1) / block > window;
  }
  // Requires: position < records.
  uint64_t At(uint64_t epoch, uint64_t position) const;

 private:
  // Records of a block of n in its parts before `part`.
  uint64_t Before(uint64_t part, uint64_t n) const { return part * n / window_; }
  uint64_t PartOf(uint64_t i, uint64_t n) const;
  // Records of steps before `step`, where the short block opens at step `gap`.
  uint64_t StepStart(uint64_t step, uint64_t gap) const;

  uint64_t block_;
  uint64_t window_;
  uint64_t blocks_;
  uint64_t last_;  // records of the last block, 1..block_
  uint64_t seed_;
};

}  // namespace moka
