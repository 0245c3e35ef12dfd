// What the openers of data layers share: the order of samples, workers, and the pipeline over a maker of samples.
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

// What mixes the layer's batches; none in TEST.
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

// The layers of one family each, by type. Errors: as OpenPipeline.
std::unique_ptr<Pipeline> OpenImagePairs(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenWindowData(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenVideoData(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenTridimData(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenVideoDataSeg(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenImageVideoData(const LayerParameter& layer, const PipelineOptions& options);
// Caffe_action's VideoData, told by its own fields, and VideoDataRNN.
bool IsActionVideo(const LayerParameter& layer);
std::unique_ptr<Pipeline> OpenActionVideo(const LayerParameter& layer, const PipelineOptions& options);
// caffe_qi's ImageData of sequences, which has three tops; RgbVideoData and FlowVideoData.
std::unique_ptr<Pipeline> OpenRunData(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenSpreadData(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenSkipGramData(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenStoryData(const LayerParameter& layer, const PipelineOptions& options);
std::unique_ptr<Pipeline> OpenTextPairData(const LayerParameter& layer, const PipelineOptions& options);

}  // namespace moka
