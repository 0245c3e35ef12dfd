// TextPairData, StoryData and SkipGramData: from a layer's fields to its pipeline.
#include "data/pipeline/text_layers.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/pipeline/length_buckets.h"
#include "data/pipeline/open_layers.h"
#include "data/pipeline/prefetch.h"
#include "data/pipeline/sampling_fields.h"
#include "data/pipeline/skip_gram_maker.h"
#include "data/pipeline/story_maker.h"
#include "data/pipeline/text_pairs.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr int64_t kMostSteps = 1 << 16;  // words of a sentence, sentences of a story

[[noreturn]] void RefuseTextField(const LayerParameter& layer, std::string_view field, std::string_view text,
                                  std::string hint = {}) {
  throw ErrorAt(layer, field, StrCat("layer \"", layer.name(), "\": ", text), std::move(hint));
}

// Checks that the outputs are as many as the tops, and that the layer's data fields are among those that text layers
// read.
void CheckCommon(const LayerParameter& layer, std::string_view message, int outputs) {
  constexpr std::array<std::string_view, 6> kData = {"batch_size", "shuffle",   "prefetch",
                                                     "threads",    "rand_skip", "on_bad_record"};
  CheckTransformFields(layer, {});
  CheckDataFields(layer, kData);
  RefuseSampling(layer);
  if (outputs == layer.top_size() && outputs > 0) return;
  RefuseTextField(
      layer, StrCat(message, ".output"),
      StrCat(message, ".output is given ", outputs, " times, and the layer has ", layer.top_size(), " tops"),
      "each top holds one output");
}

void CheckTextLayersCount(const LayerParameter& layer, std::string_view field, int64_t count, int64_t least) {
  if (count >= least && count <= kMostSteps) return;
  RefuseTextField(layer, field, StrCat(field, " is ", count, ", expected ", least, "..", kMostSteps));
}

bool SkipsBad(const LayerParameter& layer) { return layer.data_param().on_bad_record() == DataParameter::SKIP; }

// `sampler` completes the order that data_param names.
std::unique_ptr<Pipeline> OpenTexts(const LayerParameter& layer, const PipelineOptions& options,
                                    std::unique_ptr<const SampleMaker> maker,
                                    std::shared_ptr<const RecordDraw> draw = nullptr) {
  const DataParameter& param = layer.data_param();
  SamplerOptions sampler =
      SamplerFor(options, maker->record_count(), param.shuffle(), param.rand_skip(), param.batch_size());
  if (draw) {
    sampler.group = param.batch_size();  // a batch stays together, whatever the number of ranks
    sampler.draw = std::move(draw);
  }
  return std::make_unique<PrefetchPipeline>(
      std::move(maker), sampler,
      PrefetchOptions{.batch_size = param.batch_size(),
                      .batches_ahead = CheckedPrefetch(layer),
                      .workers = WorkersFor(options.threads, param.threads(), param.batch_size()),
                      .top_names = {layer.top().begin(), layer.top().end()},
                      .device = options.device});
}

// The pairs' order where they lie in buckets; null elsewhere.
std::shared_ptr<const RecordDraw> BucketsFor(const LayerParameter& layer, const PipelineOptions& options,
                                             const TextPairMaker& maker) {
  const TextPairDataParameter& param = layer.text_pair_data_param();
  if (param.bucket().empty()) return nullptr;
  if (options.phase != TRAIN) return layer.data_param().shuffle() ? nullptr : InOrderOfLength(maker.Lengths());
  return std::make_shared<LengthBuckets>(BucketsOf(maker.Lengths(), {param.bucket().begin(), param.bucket().end()}),
                                         layer.data_param().batch_size());
}

void CheckBuckets(const LayerParameter& layer, const PipelineOptions& options) {
  const TextPairDataParameter& param = layer.text_pair_data_param();
  for (int i = 1; i < param.bucket_size(); ++i) {
    if (param.bucket(i - 1) < param.bucket(i)) continue;
    RefuseTextField(layer, StrCat("text_pair_data_param.bucket[", i, "]"),
                    StrCat("bucket ", param.bucket(i), " follows ", param.bucket(i - 1), "; bounds ascend"));
  }
  if (param.bucket().empty() || options.phase != TRAIN || layer.data_param().shuffle()) return;
  RefuseTextField(layer, "text_pair_data_param.bucket",
                  "batches of buckets come in a random order, and this layer reads in order",
                  "set `shuffle: true` in data_param, or leave out bucket");
}

std::unique_ptr<Pipeline> OpenTextPairData(const LayerParameter& layer, const PipelineOptions& options) {
  const TextPairDataParameter& param = layer.text_pair_data_param();
  const auto name = [](std::string_view field) { return StrCat("text_pair_data_param.", field); };
  CheckCommon(layer, "text_pair_data_param", param.output_size());
  CheckedBatch(layer, "data_param.batch_size", layer.data_param().batch_size());
  CheckSource(layer, name("source_file"), param.source_file());
  CheckSource(layer, name("target_file"), param.target_file());
  CheckSource(layer, name("source_vocabulary"), param.source_vocabulary());
  CheckSource(layer, name("target_vocabulary"), param.target_vocabulary());
  constexpr int64_t kLeastWords = 2;  // one and the mark
  CheckTextLayersCount(layer, name("source_length"), param.source_length(), kLeastWords);
  CheckTextLayersCount(layer, name("target_length"), param.target_length(), kLeastWords);
  CheckBuckets(layer, options);
  TextPairOptions pairs{.source = options.base_folder / param.source_file(),
                        .target = options.base_folder / param.target_file(),
                        .source_vocabulary = options.base_folder / param.source_vocabulary(),
                        .target_vocabulary = options.base_folder / param.target_vocabulary(),
                        .fields = param};
  if (options.phase == TRAIN) pairs.long_sentences = TextPairOptions::Long::kLeftOut;
  if (SkipsBad(layer)) pairs.bad_pairs = TextPairOptions::Bad::kLeftOut;
  auto maker = std::make_unique<TextPairMaker>(std::move(pairs));
  std::shared_ptr<const RecordDraw> buckets = BucketsFor(layer, options, *maker);
  return OpenTexts(layer, options, std::move(maker), std::move(buckets));
}

std::unique_ptr<Pipeline> OpenStoryData(const LayerParameter& layer, const PipelineOptions& options) {
  const StoryDataParameter& param = layer.story_data_param();
  const auto name = [](std::string_view field) { return StrCat("story_data_param.", field); };
  CheckCommon(layer, "story_data_param", param.output_size());
  CheckedBatch(layer, "data_param.batch_size", layer.data_param().batch_size());
  CheckSource(layer, name("source"), param.source().empty() ? "" : param.source(0));
  CheckSource(layer, name("vocabulary"), param.vocabulary());
  CheckTextLayersCount(layer, name("sentences"), param.sentences(), 1);
  if (param.has_words()) CheckTextLayersCount(layer, name("words"), param.words(), 1);
  if (!(param.time_noise() >= 0 && param.time_noise() <= 1)) {
    RefuseTextField(layer, name("time_noise"), StrCat("time_noise is ", param.time_noise(), ", expected 0..1"));
  }
  if (!(param.validation() >= 0 && param.validation() < 1)) {
    RefuseTextField(layer, name("validation"),
                    StrCat("validation is ", param.validation(), ", expected 0 or more, below 1"));
  }
  StoryOptions stories{.sources = {},
                       .vocabulary = options.base_folder / param.vocabulary(),
                       .fields = param,
                       .phase = options.phase,
                       .seed = DataSeed(options.seed, "augment")};
  for (const std::string& source : param.source()) stories.sources.push_back(options.base_folder / source);
  if (SkipsBad(layer)) stories.bad_lines = StoryOptions::Bad::kLeftOut;
  return OpenTexts(layer, options, std::make_unique<StoryMaker>(std::move(stories)));
}

std::unique_ptr<Pipeline> OpenSkipGramData(const LayerParameter& layer, const PipelineOptions& options) {
  const SkipGramDataParameter& param = layer.skip_gram_data_param();
  const auto name = [](std::string_view field) { return StrCat("skip_gram_data_param.", field); };
  CheckCommon(layer, "skip_gram_data_param", param.output_size());
  CheckedBatch(layer, "data_param.batch_size", layer.data_param().batch_size());
  CheckSource(layer, name("source"), param.source().empty() ? "" : param.source(0));
  CheckSource(layer, name("vocabulary"), param.vocabulary());
  CheckTextLayersCount(layer, name("window"), param.window(), 1);
  CheckTextLayersCount(layer, name("negatives"), param.negatives(), 1);
  if (!(param.subsample() >= 0)) {
    RefuseTextField(layer, name("subsample"), StrCat("subsample is ", param.subsample(), ", expected 0 or more"));
  }
  SkipGramOptions grams{.sources = {},
                        .vocabulary = options.base_folder / param.vocabulary(),
                        .fields = param,
                        .seed = DataSeed(options.seed, "augment")};
  for (const std::string& source : param.source()) grams.sources.push_back(options.base_folder / source);
  return OpenTexts(layer, options, std::make_unique<SkipGramMaker>(std::move(grams)));
}

}  // namespace

// Two files of one name, from two folders, are told apart.
std::vector<LayerVocabulary> VocabulariesOf(const LayerParameter& layer) {
  const TextPairDataParameter& pairs = layer.text_pair_data_param();
  std::vector<LayerVocabulary> all;
  for (const std::string& file :
       {layer.story_data_param().vocabulary(), pairs.source_vocabulary(), pairs.target_vocabulary(),
        layer.skip_gram_data_param().vocabulary(), layer.record_data_param().vocabulary()}) {
    if (file.empty() || std::ranges::find(all, file, &LayerVocabulary::file) != all.end()) continue;
    const std::string name = std::filesystem::path(file).filename().string();
    const bool is_taken = std::ranges::find(all, name, &LayerVocabulary::copy) != all.end();
    all.push_back({file, is_taken ? StrCat(all.size() + 1, "-", name) : name});
  }
  return all;
}

DataLayerRow TextPairDataRow() { return {.type = "TextPairData", .open = OpenTextPairData}; }

DataLayerRow StoryDataRow() { return {.type = "StoryData", .open = OpenStoryData}; }

DataLayerRow SkipGramDataRow() { return {.type = "SkipGramData", .open = OpenSkipGramData}; }

}  // namespace moka
