// Convolutions in oneDNN's terms: their windows, and their weights. Moka keeps [K,C/groups,k..] for any number of
// groups, oneDNN wants [groups,K/groups,C/groups,k..]. A format of the latter whose group and output axes run on behind
// each other is a layout of the former.
#pragma once

#include <optional>

#include "layers/kernels/cpu/onednn/onednn.h"
#include "layers/ops/geometry.h"

namespace moka::onednn {

Windows ConvolutionWindows(const Geometry& geometry);

// Weights as oneDNN sees them; one axis more than the type's when groups > 1. None if the layout's blocks cross groups.
std::optional<Format> DescribeWeights(const TensorType& weights, int64_t groups);
Format DescribeAnyWeights(const TensorType& weights, int64_t groups);
// The way back. None if no layout over [K,C/groups,k..] says the same.
std::optional<Layout> WeightsLayoutOf(const MemoryDesc& md, int64_t groups);

}  // namespace moka::onednn
