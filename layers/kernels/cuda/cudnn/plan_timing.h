// Finds which of several plans is fastest on the GPU: each runs over memory of its own.
#pragma once

#include <utility>
#include <vector>

#include "layers/kernels/cuda/cudnn/plan.h"
#include "layers/kernels/cuda/timing.h"

namespace moka::cudnn {

// A tensor of the graph: its name in the variant pack and its bytes.
using PackedTensor = cuda::Trial::Size;

// A variant pack: tensors by name, and scratch.
Descriptor MakePack(const std::vector<std::pair<int64_t, void*>>& tensors, void* workspace);
// Returns the variant pack of some tensors of a trial.
Descriptor PackOf(const cuda::Trial& trial, const std::vector<PackedTensor>& tensors);

// The most that one of the plans wants.
int64_t MostWorkspace(const std::vector<Plan>& plans);

// The index of the fastest plan, as FastestOf. Errors: those of Trial.
size_t FastestPlan(const std::vector<Plan>& plans, const std::vector<PackedTensor>& tensors, const Device& device);

}  // namespace moka::cudnn
