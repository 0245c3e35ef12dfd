// Sentences of refusals that kernels for GPUs share, and their proposals.
#pragma once

#include "core/text.h"
#include "layers/bound_kernel.h"

namespace moka::cuda {

// "" or why not: every tensor of the first input's rank must lie as that does, plain or with channels last; others are
// plain.
inline std::string RefuseUnlessImages(const KernelQuery& query) {
  if (!IsPlainOrChannelsLast(query.inputs[0])) {
    return StrCat("it works on plain or channels-last tensors, not ", query.inputs[0].ToString());
  }
  return RefuseUnlessSameLayout(query);
}

// The first input's layout if images may have it, otherwise plain.
inline std::optional<LayoutProposal> ProposeImages(const KernelQuery& query) {
  if (IsPlainOrChannelsLast(query.inputs[0])) return ProposeFirstLayout(query);
  return LayoutProposal{std::vector<Layout>(query.inputs.size()), std::vector<Layout>(query.outputs.size())};
}

// "" or why not: input i, which holds whole numbers, must be float32.
inline std::string RefuseUnlessFloat32At(const KernelQuery& query, size_t i) {
  if (query.inputs[i].dtype == DType::kFloat32) return {};
  return StrCat("it reads whole numbers from float32, not ", query.inputs[i].ToString());
}

}  // namespace moka::cuda
