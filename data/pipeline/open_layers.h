// The part that the openers of data layers share: the order of samples, workers, and the pipeline over a maker of
// samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/augment/mixer.h"
#include "data/layer_fields.h"
#include "data/pipeline/pipeline.h"
#include "data/pipeline/sample_maker.h"
#include "data/pipeline/sampler.h"
#include "data/pipeline/worker_tuner.h"

namespace moka {

// The order of samples of one rank. Requires: records >= 1.
SamplerOptions SamplerFor(const PipelineOptions& options, int64_t records, bool shuffle, int64_t rand_skip,
                          int64_t batch);
// Decoding threads: those asked for, the layer's own number, or as many as are needed of this process's share of the
// CPUs, at most 16.
WorkerTuner WorkersFor(int64_t asked, int64_t layers_own, int64_t batch);

// Returns the mixer of the layer's batches; none in TEST.
std::optional<Mixer> MixerFor(const LayerParameter& layer, const PipelineOptions& options);

// The pipeline of a layer that reads files of a list.
struct ListFields {
  int64_t batch = 1;
  bool shuffle = false;
  int64_t rand_skip = 0;
  int64_t group = 1;  // lines that stay together when shuffled
};
std::unique_ptr<Pipeline> OpenListed(const LayerParameter& layer, const PipelineOptions& options,
                                     const ListFields& fields, std::unique_ptr<const SampleMaker> maker);

// VideoData and ImageData of forks, which only fields tell. Errors: as OpenPipeline.
// Caffe_action's VideoData (IsActionVideo).
std::unique_ptr<Pipeline> OpenActionVideo(const LayerParameter& layer, const PipelineOptions& options);
// caffe_qi's ImageData of sequences, which has three tops.
std::unique_ptr<Pipeline> OpenRunData(const LayerParameter& layer, const PipelineOptions& options);

}  // namespace moka
