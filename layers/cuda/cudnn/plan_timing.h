// Which of several plans is fastest on the GPU: each runs over memory of its own.
#pragma once

#include <utility>
#include <vector>

#include "layers/cuda/cudnn/plan.h"

namespace moka::cudnn {

// A tensor of the graph: its name in the variant pack and its bytes.
using PackedTensor = std::pair<int64_t, int64_t>;

// A variant pack: tensors by name, and scratch.
Descriptor MakePack(const std::vector<std::pair<int64_t, void*>>& tensors, void* workspace);

// The index of the fastest plan; an earlier one where a later gains too little to be told from noise. Errors:
// kUnavailable when the GPU has no memory for the trial.
size_t FastestPlan(const std::vector<Plan>& plans, const std::vector<PackedTensor>& tensors, const Device& device);

}  // namespace moka::cudnn
