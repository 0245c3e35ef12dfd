// Convolution weights: Moka keeps [K,C/groups,k..] for any number of groups, oneDNN wants
// [groups,K/groups,C/groups,k..]. A format of the latter whose group and output axes run on behind each other is a
// layout of the former.
#pragma once

#include <optional>

#include "layers/kernels/cpu/onednn/onednn.h"

namespace moka::onednn {

// Weights as oneDNN sees them; one axis more than the type's when groups > 1. None if the layout's blocks cross groups.
std::optional<dnnl_memory_desc_t> DescribeWeights(const TensorType& weights, int64_t groups);
dnnl_memory_desc_t DescribeAnyWeights(const TensorType& weights, int64_t groups);
// The way back. None if no layout over [K,C/groups,k..] says the same.
std::optional<Layout> WeightsLayoutOf(const dnnl_memory_desc_t& md, int64_t groups);

}  // namespace moka::onednn
