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

int64_t BlockOver(const dnnl_memory_desc_t& md, int axis) {
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  int64_t size = 1;
  for (int b = 0; b < blocking.inner_nblks; ++b) size *= blocking.inner_idxs[b] == axis ? blocking.inner_blks[b] : 1;
  return size;
}

}  // namespace

std::optional<dnnl_memory_desc_t> DescribeWeights(const TensorType& weights, int64_t groups) {
  const dnnl_memory_desc_t flat = Describe(weights);
  if (groups == 1) return flat;
  const int64_t outputs = weights.shape[0] / groups;
  const int64_t block = BlockOver(flat, 0);
  // Depthwise: blocks over K are blocks over the groups. Otherwise they must not cross a group's border.
  const bool blocks_groups = outputs == 1;
  if (!blocks_groups && outputs % block != 0) return {};
  dnnl_memory_desc_t md = Describe(Grouped(weights, groups));
  dnnl_blocking_desc_t& to = md.format_desc.blocking;
  const dnnl_blocking_desc_t& from = flat.format_desc.blocking;
  to.inner_nblks = from.inner_nblks;
  for (int b = 0; b < from.inner_nblks; ++b) {
    to.inner_blks[b] = from.inner_blks[b];
    const dnnl_dim_t axis = from.inner_idxs[b];
    to.inner_idxs[b] = axis == 0 && blocks_groups ? 0 : axis + 1;
  }
  for (int axis = 0; axis < flat.ndims; ++axis) {
    to.strides[axis + 1] = from.strides[axis];
    md.padded_dims[axis + 1] = axis == 0 ? outputs : flat.padded_dims[axis];
  }
  to.strides[0] = blocks_groups ? from.strides[0] : from.strides[0] * (outputs / block);
  md.padded_dims[0] = blocks_groups ? flat.padded_dims[0] : groups;
  return md;
}

dnnl_memory_desc_t DescribeAnyWeights(const TensorType& weights, int64_t groups) {
  return DescribeAny(groups == 1 ? weights : Grouped(weights, groups));
}

// From oneDNN's [groups, K/groups, ..] back to [K, ..]: possible where only the groups are blocked (depthwise), or
// where each group's outputs follow those of the one before.
std::optional<Layout> WeightsLayoutOf(const dnnl_memory_desc_t& md, int64_t groups) {
  if (groups == 1 || md.format_kind != dnnl_blocked) return LayoutOf(md);
  const dnnl_blocking_desc_t& from = md.format_desc.blocking;
  const int64_t outputs = md.dims[1];
  const int64_t block = BlockOver(md, 1);
  const bool blocks_groups = outputs == 1;
  if (blocks_groups ? block != 1 : BlockOver(md, 0) != 1) return {};
  if (!blocks_groups && (outputs % block != 0 || from.strides[0] != from.strides[1] * (outputs / block))) return {};
  dnnl_memory_desc_t flat = md;
  dnnl_blocking_desc_t& to = flat.format_desc.blocking;
  flat.ndims = md.ndims - 1;
  for (int axis = 0; axis < flat.ndims; ++axis) {
    flat.dims[axis] = md.dims[axis + 1];
    flat.padded_dims[axis] = md.padded_dims[axis + 1];
    flat.padded_offsets[axis] = md.padded_offsets[axis + 1];
    to.strides[axis] = from.strides[axis + 1];
  }
  flat.dims[0] = groups * outputs;
  flat.padded_dims[0] = blocks_groups ? md.padded_dims[0] : flat.dims[0];
  if (blocks_groups) to.strides[0] = from.strides[0];
  for (int b = 0; b < from.inner_nblks; ++b) to.inner_idxs[b] = from.inner_idxs[b] == 0 ? 0 : from.inner_idxs[b] - 1;
  return LayoutOf(flat);
}

}  // namespace moka::onednn
