// DummyData: tops filled by fillers. As in Caffe, constant tops are filled once and random ones again for each batch.
#pragma once

#include "data/pipeline/pipeline.h"

namespace moka {

class DummyPipeline : public Pipeline {
 public:
  // Errors: kConfig when shapes and fillers do not match the tops or a filler is unknown.
  DummyPipeline(const LayerParameter& layer, const PipelineOptions& options, uint64_t seed);
  int64_t epoch_size() const override { return 0; }

 protected:
  void Deliver(std::span<const Tensor> tops, PipelineStatistics& statistics) override;

 private:
  // Ranks that share a batch have the rows of it that its records would go to.
  void FillRows(size_t top, uint64_t stream, std::span<float> out);

  PipelineOptions options_;
  uint64_t seed_;
  std::vector<float> whole_;              // a batch of all ranks
  std::vector<FillerParameter> fillers_;  // one a top
};

}  // namespace moka
