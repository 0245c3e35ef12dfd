// The pipeline whose samples the caller gives.
#pragma once

#include <span>
#include <vector>

#include "data/pipeline/pipeline.h"

namespace moka {

// MemoryData: the caller gives the samples.
class MemoryPipeline : public Pipeline {
 public:
  explicit MemoryPipeline(const LayerParameter& layer);
  // Data [n,C,H,W] and labels [n], copied. Errors: kBadData when n is no multiple of the batch size or sizes disagree.
  void Fill(std::span<const float> data, std::span<const float> labels);
  int64_t epoch_size() const override { return static_cast<int64_t>(labels_.size()); }

 protected:
  void Deliver(std::span<const Tensor> tops, PipelineStatistics& statistics) override;

 private:
  std::vector<float> data_;
  std::vector<float> labels_;
};

}  // namespace moka
