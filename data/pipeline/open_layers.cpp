// Turns a layer's fields into options of the sampler, the workers and the mixer, with the checks that all openers need.
#include "data/pipeline/open_layers.h"

#include <algorithm>

#include "core/rng.h"
#include "core/threads/team.h"
#include "data/pipeline/prefetch.h"
#include "data/pipeline/sampling_fields.h"

namespace moka {
namespace {

constexpr int64_t kMaxThreads = 256;

}  // namespace

SamplerOptions SamplerFor(const PipelineOptions& options, int64_t records, bool shuffle, int64_t rand_skip,
                          int64_t batch) {
  SamplerOptions sampler{.records = records,
                         .order = shuffle ? SamplerOptions::Order::kShuffled : SamplerOptions::Order::kSequential,
                         .seed = DataSeed(options.seed, "order"),
                         .rank = options.rank,
                         .world = options.world};
  if (rand_skip > 0) {
    sampler.skip = static_cast<int64_t>(
        RandomStream(DataSeed(options.seed, "rand_skip"), 0).Below(static_cast<uint64_t>(rand_skip)));
  }
  if (options.whole_batches) sampler.run = batch;
  return sampler;
}

WorkerTuner WorkersFor(int64_t asked, int64_t layers_own, int64_t batch) {
  constexpr int64_t kMostTuned = 16;
  const auto bounded = [&](int64_t threads) {
    return std::clamp<int64_t>(threads, 1, std::min(kMaxThreads, std::max<int64_t>(batch, 1)));
  };
  const int64_t wanted = asked > 0 ? asked : layers_own;
  return wanted > 0 ? WorkerTuner::Fixed(bounded(wanted))
                    : WorkerTuner::UpTo(bounded(std::min<int64_t>(CpuShare(), kMostTuned)));
}

std::optional<Mixer> MixerFor(const LayerParameter& layer, const PipelineOptions& options) {
  if (options.phase != TRAIN || !layer.transform_param().has_mixing()) return std::nullopt;
  return Mixer(layer.transform_param().mixing(), DataSeed(options.seed, "mixing"), options.rank);
}

std::unique_ptr<Pipeline> OpenListed(const LayerParameter& layer, const PipelineOptions& options,
                                     const ListFields& fields, std::unique_ptr<const SampleMaker> maker) {
  SamplerOptions sampler = SamplerFor(options, maker->record_count(), fields.shuffle, fields.rand_skip, fields.batch);
  sampler.group = fields.group;
  ReadSampling(layer, options, *maker, /*skips_bad=*/false, sampler);
  constexpr int64_t kBatchesAhead = 4;  // Caffe's
  return std::make_unique<PrefetchPipeline>(std::move(maker), sampler,
                                            PrefetchOptions{.batch_size = fields.batch,
                                                            .batches_ahead = kBatchesAhead,
                                                            .workers = WorkersFor(options.threads, 0, fields.batch),
                                                            .top_names = {layer.top().begin(), layer.top().end()},
                                                            .mixer = MixerFor(layer, options),
                                                            .device = options.device});
}

}  // namespace moka
