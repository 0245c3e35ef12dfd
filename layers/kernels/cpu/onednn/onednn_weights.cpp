// [K,C/g,k..] and [g,K/g,C/g,k..] are the same bytes in plain layout, and in blocked ones as long as blocks do not
// cross groups: the views are descriptors and no copies.
#include "layers/kernels/cpu/onednn/onednn_weights.h"

namespace moka::onednn {
namespace {

// [K,C/g,k..] -> [g,K/g,C/g,k..].
TensorType Grouped(const TensorType& weights, int64_t groups) {
  const int64_t outputs = weights.shape[0] / groups;
  return {weights.dtype, weights.shape.With(0, outputs).Inserted(0, groups), {}};
}

int64_t BlockOver(const Format& format, int axis) {
  int64_t size = 1;
  for (int b = 0; b < format.inner_nblks; ++b) size *= format.inner_idxs[b] == axis ? format.inner_blks[b] : 1;
  return size;
}

}  // namespace

Windows ConvolutionWindows(const Geometry& geometry) {
  Windows windows;
  for (int i = 0; i < geometry.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    windows.strides[i] = geometry.stride[s];
    windows.gaps[i] = geometry.dilation[s] - 1;
    windows.pad_begin[i] = geometry.pad_begin[s];
    windows.pad_end[i] = geometry.pad_end[s];
  }
  return windows;
}

std::optional<Format> DescribeWeights(const TensorType& weights, int64_t groups) {
  const Format flat = Describe(weights);
  if (groups == 1) return flat;
  const int64_t outputs = weights.shape[0] / groups;
  const int64_t block = BlockOver(flat, 0);
  // Depthwise: blocks over K are blocks over the groups. Otherwise they must not cross a group's border.
  const bool blocks_groups = outputs == 1;
  if (!blocks_groups && outputs % block != 0) return {};
  Format to = Describe(Grouped(weights, groups));
  to.inner_nblks = flat.inner_nblks;
  for (int b = 0; b < flat.inner_nblks; ++b) {
    to.inner_blks[b] = flat.inner_blks[b];
    const dnnl_dim_t axis = flat.inner_idxs[b];
    to.inner_idxs[b] = axis == 0 && blocks_groups ? 0 : axis + 1;
  }
  for (int axis = 0; axis < flat.ndims; ++axis) {
    to.strides[axis + 1] = flat.strides[axis];
    to.padded_dims[axis + 1] = axis == 0 ? outputs : flat.padded_dims[axis];
  }
  to.strides[0] = blocks_groups ? flat.strides[0] : flat.strides[0] * (outputs / block);
  to.padded_dims[0] = blocks_groups ? flat.padded_dims[0] : groups;
  return to;
}

Format DescribeAnyWeights(const TensorType& weights, int64_t groups) {
  return DescribeAny(groups == 1 ? weights : Grouped(weights, groups));
}

// From oneDNN's [groups, K/groups, ..] back to [K, ..]: possible where only the groups are blocked (depthwise), or
// where each group's outputs follow those of the one before.
std::optional<Layout> WeightsLayoutOf(const MemoryDesc& md, int64_t groups) {
  const std::optional<Format> from = md.format();
  if (!from) return {};
  if (groups == 1) return LayoutOf(*from);
  const int64_t outputs = from->dims[1];
  const int64_t block = BlockOver(*from, 1);
  const bool blocks_groups = outputs == 1;
  if (blocks_groups ? block != 1 : BlockOver(*from, 0) != 1) return {};
  if (!blocks_groups && (outputs % block != 0 || from->strides[0] != from->strides[1] * (outputs / block))) return {};
  Format flat = *from;
  flat.ndims = from->ndims - 1;
  for (int axis = 0; axis < flat.ndims; ++axis) {
    flat.dims[axis] = from->dims[axis + 1];
    flat.padded_dims[axis] = from->padded_dims[axis + 1];
    flat.strides[axis] = from->strides[axis + 1];
  }
  flat.dims[0] = groups * outputs;
  flat.padded_dims[0] = blocks_groups ? from->padded_dims[0] : flat.dims[0];
  if (blocks_groups) flat.strides[0] = from->strides[0];
  for (int b = 0; b < from->inner_nblks; ++b)
    flat.inner_idxs[b] = from->inner_idxs[b] == 0 ? 0 : from->inner_idxs[b] - 1;
  return LayoutOf(flat);
}

}  // namespace moka::onednn
