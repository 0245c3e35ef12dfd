// What the openers of data layers share: checks of fields, seeds, and the pipeline over a maker of samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/augment/mixer.h"
#include "data/pipeline.h"
#include "data/sample_maker.h"
#include "data/sampler.h"
#include "data/worker_tuner.h"

namespace moka {

// A seed of its own for each use of random numbers ("order", "augment"), apart from the net's.
uint64_t DataSeed(uint64_t seed, std::string_view use);

// Errors: kConfig unless the layer has 1..most tops.
void CheckTops(const LayerParameter& layer, int most = 2);
// Errors: kConfig at the field, naming it, when a text that must be there is empty.
void CheckSource(const LayerParameter& layer, std::string_view field, const std::string& source);
int64_t CheckedBatch(const LayerParameter& layer, std::string_view field, int64_t batch);
// Errors: kConfig unless both sides are 0 or both are possible sizes of an image.
void CheckNewSize(const LayerParameter& layer, std::string_view message, int64_t height, int64_t width);
// Errors: kConfig at the first field of transform_param that is set and is not one of these, nor one without effect.
void CheckTransformFields(const LayerParameter& layer, std::span<const std::string_view> known);
// Errors: kConfig at the first field of data_param that is set and is not one of these.
void CheckDataFields(const LayerParameter& layer, std::span<const std::string_view> known);
// Height and width of the crop, {0, 0} for none, from crop_size, crop_height and crop_width, or crop_h and crop_w.
struct CropSize {
  int64_t height = 0;
  int64_t width = 0;
};
CropSize CropOf(const LayerParameter& layer);

// Errors: kConfig at a field of `old`, one of the layer's messages, of which transform_param has another value.
void RequireSameTransform(const LayerParameter& layer, const google::protobuf::Message& old);

// Fields that Caffe moved into transform_param; the net's reader upgrades them, other callers may not have. Errors: as
// RequireSameTransform.
template <class Parameter>
TransformationParameter TransformOf(const LayerParameter& layer, const Parameter& old) {
  RequireSameTransform(layer, old);
  TransformationParameter transform = layer.transform_param();
  if (old.has_scale() && !transform.has_scale()) transform.set_scale(old.scale());
  if (old.has_mean_file() && !transform.has_mean_file()) transform.set_mean_file(old.mean_file());
  if (old.has_crop_size() && !transform.has_crop_size()) transform.set_crop_size(old.crop_size());
  if (old.has_mirror() && !transform.has_mirror()) transform.set_mirror(old.mirror());
  return transform;
}

// transform_param with the fields that other messages of the layer say the same with.
TransformationParameter PictureFieldsOf(const LayerParameter& layer);
// Height and width that a layer of listed pictures resizes them to; 0 and 0: as they are.
std::pair<int64_t, int64_t> ListedSizeOf(const LayerParameter& layer);

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

// What is taken from each pixel before the scale: an image, or values.
struct PixelMean {
  Shape shape = {};                // [C,H,W] of the image; rank 0: none
  std::vector<float> image = {};   // row-major
  std::vector<float> values = {};  // none, one, or a group that repeats over the channels
  float ValueOf(int64_t channel) const {
    return values.empty() ? 0.0F : values[static_cast<size_t>(channel) % values.size()];
  }
};
// mean_file (looked for under the folder) or mean_value. Errors: kConfig when both are set or a number is not finite,
// kNoInput and kBadData for the file.
PixelMean ReadPixelMean(const TransformationParameter& transform, const std::filesystem::path& base_folder);

// The words of each line that has some, with the line's number from 1.
struct ListLine {
  int number = 0;
  std::vector<std::string> words;
};
// Errors: kNoInput; kBadData when no line has a word.
std::vector<ListLine> ReadListLines(const std::filesystem::path& path);
// Errors: kBadData for a number that a net's floats would change into another one.
void CheckWhole(int64_t number, std::string_view what, const SourcePlace& place);
// A whole number. Errors: kBadData at file:line, saying what the word is.
int64_t NumberOf(const std::string& word, std::string_view what, const std::filesystem::path& list, int line);
// The same of a label, which a net's float must hold.
int64_t LabelOf(const std::string& word, const std::filesystem::path& list, int line);

}  // namespace moka
