// Renames messages and merges fields of 3D-Caffe and its kin; the names are forks', the meaning is Caffe's
// N-dimensional fields.
#include "proto/upgrade/volume_fields.h"

namespace moka {
namespace {

PoolingParameter FromPooling3D(const Pooling3DParameter& p) {
  PoolingParameter same;
  same.set_pool(static_cast<PoolingParameter::PoolMethod>(p.pool()));
  if (p.has_global_pooling()) same.set_global_pooling(p.global_pooling());
  if (p.has_kernel_size()) same.add_kernel_size(p.kernel_size());
  if (p.has_kernel_h()) same.set_kernel_h(p.kernel_h());
  if (p.has_kernel_w()) same.set_kernel_w(p.kernel_w());
  if (p.has_stride()) same.add_stride(p.stride());
  if (p.has_stride_h()) same.set_stride_h(p.stride_h());
  if (p.has_stride_w()) same.set_stride_w(p.stride_w());
  if (p.has_pad()) same.add_pad(p.pad());
  if (p.has_pad_h()) same.set_pad_h(p.pad_h());
  if (p.has_pad_w()) same.set_pad_w(p.pad_w());
  if (p.global_pooling()) return same;
  // Neither given leaves 0, which the layer refuses: the original has no default either.
  same.set_kernel_depth(p.has_kernel_l() ? p.kernel_l() : p.kernel_depth());
  same.set_temporal_stride(p.has_stride_l() ? p.stride_l() : p.temporal_stride());
  same.set_temporal_pad(p.pad_l());
  return same;
}

}  // namespace

bool RenameVolumeFields(NetParameter& net) {
  bool changed = false;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.has_convolution3d_param() && !layer.has_convolution_param()) {
      layer.mutable_convolution_param()->Swap(layer.mutable_convolution3d_param());
      layer.clear_convolution3d_param();
      changed = true;
    }
    if (layer.has_pooling_param()) continue;
    if (layer.has_pooling3d_param()) {
      *layer.mutable_pooling_param() = FromPooling3D(layer.pooling3d_param());
      layer.clear_pooling3d_param();
      changed = true;
    } else if (layer.has_pooling_nd_param()) {
      layer.mutable_pooling_param()->Swap(layer.mutable_pooling_nd_param());
      layer.clear_pooling_nd_param();
      changed = true;
    }
  }
  return changed;
}

}  // namespace moka
