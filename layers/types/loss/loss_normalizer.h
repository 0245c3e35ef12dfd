// The divisor of a loss's sum: LossParameter's `normalization` and its deprecated spelling.
#pragma once

#include "layers/net/layer.h"

namespace moka {

struct LossCounts {
  int64_t batch = 1;
  int64_t positions = 1;  // batch x spatial positions
  ValueId valid = kNoId;  // scalar: positions that are not ignored; kNoId: all of them
};

// The sum divided as loss_param says, `fallback` when it says nothing; never by less than 1.
ValueId Normalized(const LayerBuilder& l, ValueId sum, const LossCounts& counts,
                   LossParameter::NormalizationMode fallback);

// A sum over this rank's part of a batch, so that the mean over ranks is the sum over all of it.
ValueId SumOfRanks(const LayerBuilder& l, ValueId sum);

// A sum divided by how many of the batch there are on all ranks, at least 1: the mean over ranks is the quotient of
// all.
ValueId OverCount(const LayerBuilder& l, ValueId sum, ValueId count, std::string_view use = "count");

}  // namespace moka
