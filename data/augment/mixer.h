// transform_param.mixing: the samples of a batch with each other, as the batch leaves the pipeline. All pixels by
// parts (mixup, arXiv 1710.09412) or a rectangle of them (cutmix, arXiv 1905.04899), and labels in the same parts.
// Draws are a pure function of the seed, the rank and the number of the batch's first sample.
#pragma once

#include <cstdint>
#include <span>

#include "core/types.h"
#include "data/image/image.h"
#include "proto/moka.pb.h"

namespace moka {

// How one batch is mixed: sample i with sample (i + partner) mod N.
struct MixPlan {
  int64_t partner = 0;
  double part = 1;          // of the sample itself
  ImageWindow window = {};  // cutmix: what comes from the partner; empty: mixup
};

class Mixer {
 public:
  // Requires: CheckAugment found no fault with the fields.
  Mixer(const Mixing& mixing, uint64_t seed, int64_t rank) : mixing_(mixing), seed_(seed), rank_(rank) {}

  // A batch of one sample stays as it is, as does one whose rectangle would hold no pixel.
  MixPlan PlanOf(int64_t first_sample, int64_t batch, const Shape& sample) const;
  // A batch [N,C,H,W]. Requires: `from` and `to` do not overlap.
  static void MixData(const MixPlan& plan, const Shape& batch, std::span<const float> from, std::span<float> to);
  // Labels [N] to parts of classes [N,classes]. Errors: kBadData for a label that is no class.
  void MixLabels(const MixPlan& plan, std::span<const float> labels, std::span<float> parts) const;
  int64_t classes() const { return mixing_.classes(); }

 private:
  Mixing mixing_;
  uint64_t seed_;
  int64_t rank_;
};

}  // namespace moka
