// Tells which rank of a pipeline has which layer (LayerParameter.pipeline_stage).
#pragma once

#include <map>
#include <span>
#include <string>

#include "layers/net/layer.h"
#include "proto/moka.pb.h"

namespace moka {

// Whether any layer names its stage.
bool HasStages(const NetParameter& net);

// Layer -> stage; a layer that names none has that of the layer before it, the first one 0. Layers without bottoms feed
// whoever reads them and bind no stage. Errors: kConfig at the layer's pipeline_stage: a negative one, a stage that no
// rank has, a layer before what it reads; at the net if ranks are left over.
std::map<std::string, int> StagesOf(const NetParameter& net, int ranks);

// Errors: kConfig when layers of two stages share a parameter.
void RefuseSharing(const NetParameter& net, std::span<const NetBlob> blobs, const std::map<std::string, int>& stages);

// Refuses what a pipeline does not do yet. Errors: kUnavailable at the solver's field; kConfig for
// micro_batches below 1.
void RefuseInPipeline(const SolverParameter& solver);

}  // namespace moka
