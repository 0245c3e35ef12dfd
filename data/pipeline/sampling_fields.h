// sampling_param of data layers: blocks and windows of the shuffle, or classes and records that come by weight.
#pragma once

#include "data/pipeline/pipeline.h"
#include "data/pipeline/sample_maker.h"
#include "data/pipeline/sampler.h"

namespace moka {

// Completes the order of a layer's samples by its sampling_param, if it has one. Labels are read once for it; with
// `skips_bad`, records whose label cannot be read are never drawn.
// Errors: kConfig at the field for what has no effect or contradicts another field; kNoInput and kBadData for the file
// of weights, at its line; those of a record whose label is needed, by its name.
void ReadSampling(const LayerParameter& layer, const PipelineOptions& options, const SampleMaker& maker, bool skips_bad,
                  SamplerOptions& sampler);

// Refuses sampling_param in layers that have an order of their own. Errors: kConfig if it is set.
void RefuseSampling(const LayerParameter& layer);

}  // namespace moka
