// The input pipeline of one data layer against the clock: what `moka bench data` measures.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "data/pipeline/pipeline.h"
#include "proto/moka.pb.h"

namespace moka {

class DataBench {
 public:
  // Opens the layer. Errors: those of OpenPipeline.
  DataBench(const LayerParameter& layer, const PipelineOptions& options);

  // Milliseconds of each of the next batches.
  std::vector<double> Run(int64_t batches);
  // Whether the first batches are, bit for bit, those of a pipeline with one worker. Starts over before and after.
  bool IsReproducible(int64_t batches);

  Pipeline& pipeline() { return *pipeline_; }

 private:
  LayerParameter layer_;
  PipelineOptions options_;
  std::unique_ptr<Pipeline> pipeline_;
  std::span<const Tensor> tops_;  // of the last batch
};

// A Data layer over a database that does what ImageNet's recipe does: random-resized-crop to `side` pixels, flip,
// normalise, in a new order each epoch.
LayerParameter ImageRecipe(const std::string& database, int64_t batch, int64_t side);

}  // namespace moka
