// From a data layer to its pipeline: which types there are, and how each is opened.
#pragma once

#include <memory>
#include <string_view>

#include "data/pipeline/pipeline.h"
#include "proto/moka.pb.h"

namespace moka {

// Whether a layer type is one that OpenPipeline knows ("Data", "HDF5Data", "ImageData", "WindowData", "DummyData",
// "MemoryData" and others).
bool IsPipelineLayer(std::string_view type);
// Whether a layer of such a type reads records, so that those of one number in two layers may belong together.
bool ReadsRecords(std::string_view type);

// Opens a data layer's source, reads its first record for the shapes and starts its workers.
// Errors: kConfig at the layer's fields; those of the source.
std::unique_ptr<Pipeline> OpenPipeline(const LayerParameter& layer, const PipelineOptions& options);

}  // namespace moka
