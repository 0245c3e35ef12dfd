// Runs each plan over zeroed memory of its own with events around, so that a trial touches no tensor of the program.
#include "layers/kernels/cuda/cudnn/plan_timing.h"

#include <algorithm>

namespace moka::cudnn {

// A variant pack says which memory each tensor's id stands for; a plan serves any number of packs.
Descriptor MakePack(const std::vector<std::pair<int64_t, void*>>& tensors, void* workspace) {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [id, pointer] : tensors) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.SetRaw(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(pointers.size()),
              pointers.data());
  pack.SetRaw(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.Finalize();
  return pack;
}

Descriptor PackOf(const cuda::Trial& trial, const std::vector<PackedTensor>& tensors) {
  std::vector<std::pair<int64_t, void*>> places;
  for (const auto& [id, bytes] : tensors) places.emplace_back(id, trial.tensor(id));
  return MakePack(places, trial.scratch());
}

int64_t MostWorkspace(const std::vector<Plan>& plans) {
  int64_t bytes = 0;
  for (const Plan& plan : plans) bytes = std::max(bytes, plan.workspace_bytes);
  return bytes;
}

size_t FastestPlan(const std::vector<Plan>& plans, const std::vector<PackedTensor>& tensors, const Device& device) {
  const cuda::Trial trial(tensors, MostWorkspace(plans), device);
  const Descriptor pack = PackOf(trial, tensors);
  return cuda::FastestOf(trial.stream(), plans.size(), [&](size_t i) {
    Handle::Of(device).Execute(trial.stream().native(), plans[i].descriptor, pack);
  });
}

}  // namespace moka::cudnn
