// Sentences of refusals that kernels for GPUs share, and their proposals.
#pragma once

#include "core/text.h"
#include "layers/kernels/bound_kernel.h"

namespace moka::cuda {

// Whether two tensors of a rank lie alike: by layouts that mean the same for one of the shapes, as plain and channels
// last do for planes of one element.
inline bool LieAlike(const TensorType& a, const TensorType& b) {
  return a.layout.Simplified(a.shape) == b.layout.Simplified(a.shape) ||
         a.layout.Simplified(b.shape) == b.layout.Simplified(b.shape);
}

// "" or why not: every tensor of the first input's rank must lie as that does, plain or with channels last; others are
// plain.
inline std::string RefuseUnlessImages(const KernelQuery& query) {
  const TensorType& first = query.inputs[0];
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      const bool follows = type.shape.rank() == first.shape.rank();
      if (!(follows ? IsPlainOrChannelsLast(type) : type.layout.is_plain())) {
        return StrCat("it works on plain or channels-last tensors, not ", type.ToString());
      }
      if (follows && !LieAlike(type, first)) {
        return StrCat("the layout of ", type.ToString(), " is not the one of ", first.ToString());
      }
    }
  }
  return {};
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
