// The weights of a trained net, as its training's tests saw them.
#pragma once

#include <span>
#include <string>

#include "graph/parameter_store.h"
#include "layers/net/net.h"

namespace moka {

// ReadWeightFiles, to which no layer may be missing; where a file of the comma-separated list is of a checkpoint whose
// training kept means of its weights (ema_decay), the means, which its tests ranked. Errors: those of LoadWeights and
// LoadCheckpoint; kBadData naming every layer that no file has.
void LoadTrainedWeights(const std::string& list, std::span<const NetBlob> blobs, ParameterStore& store);

}  // namespace moka
