// What a loss sum is divided by: LossParameter's normalization and its deprecated spelling.
#pragma once

#include "layers/layer.h"

namespace moka {

struct LossCounts {
  int64_t batch = 1;
  int64_t positions = 1;  // batch x spatial positions
  ValueId valid = kNoId;  // scalar: positions that are not ignored; kNoId: all of them
};

// A number that a loss is divided by, counted in the batch, as a constant: its mean over the ranks where several train
// together, so that the mean of their losses is the sum of all divided by the number of all. Where they cannot meet in
// the middle of a step it stays the rank's own, with a warning.
ValueId CountOfRanks(const LayerBuilder& l, ValueId count);
// The least such number of a rank, where one rank's is at least 1.
std::string LeastOfRanks(const LayerBuilder& l);
// A loss that is a sum over the batch, not divided by it.
ValueId SumOfRanks(const LayerBuilder& l, ValueId sum);

// The sum divided as loss_param says, `fallback` when it says nothing; never by less than 1.
ValueId Normalized(const LayerBuilder& l, ValueId sum, const LossCounts& counts,
                   LossParameter::NormalizationMode fallback);

}  // namespace moka
