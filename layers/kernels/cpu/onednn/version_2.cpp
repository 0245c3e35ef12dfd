// oneDNN 2 (from 2.6): a memory descriptor is a struct whose fields Moka writes and reads, an operation is described
// first and made into a primitive then, and scales are part of the request. With oneDNN 3 this file is empty.
#include <dnnl_version.h>
#if DNNL_VERSION_MAJOR == 2
#include <algorithm>

#include "layers/kernels/cpu/onednn/primitives.h"

namespace moka::onednn {
namespace {

Owned<dnnl_post_ops> MakePostOps(const PostOps& wanted) {
  dnnl_post_ops_t post_ops = nullptr;
  Check(dnnl_post_ops_create(&post_ops), "dnnl_post_ops_create");
  Owned<dnnl_post_ops> owned(post_ops);
  // The order counts: the ReLU is of the total.
  if (wanted.sum)
    Check(dnnl_post_ops_append_sum_v2(post_ops, wanted.sum_scale, wanted.sum_type), "dnnl_post_ops_append_sum_v2");
  if (wanted.relu) {
    Check(dnnl_post_ops_append_eltwise(post_ops, 1.0F, dnnl_eltwise_relu, 0.0F, 0.0F), "dnnl_post_ops_append_eltwise");
  }
  return owned;
}

// The scratchpad is the user's: a program books it in its arena, so that a step allocates nothing. Several scales are
// along one axis.
Owned<dnnl_primitive_attr> MakeAttributes(std::span<const float> scales = {}, int scale_axis = 0) {
  dnnl_primitive_attr_t attr = nullptr;
  Check(dnnl_primitive_attr_create(&attr), "dnnl_primitive_attr_create");
  Owned<dnnl_primitive_attr> owned(attr);
  Check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
        "dnnl_primitive_attr_set_scratchpad_mode");
  if (!scales.empty()) {
    const int mask = scales.size() == 1 ? 0 : 1 << scale_axis;
    Check(dnnl_primitive_attr_set_output_scales(attr, static_cast<dnnl_dim_t>(scales.size()), mask, scales.data()),
          "dnnl_primitive_attr_set_output_scales");
  }
  return owned;
}

// Makes the primitive of an operation whose descriptor was filled with this status.
PrimitiveDesc Create(dnnl_status_t filled, const_dnnl_op_desc_t op, const PostOps& post_ops = {},
                     const PrimitiveDesc* forward = nullptr) {
  if (filled != dnnl_success) return {filled, nullptr};
  const Owned<dnnl_primitive_attr> attr = MakeAttributes(post_ops.scales, 1);
  Check(dnnl_primitive_attr_set_post_ops(attr.get(), MakePostOps(post_ops).get()), "dnnl_primitive_attr_set_post_ops");
  dnnl_primitive_desc_t desc = nullptr;
  const dnnl_status_t status =
      dnnl_primitive_desc_create(&desc, op, attr.get(), Engine(), forward == nullptr ? nullptr : forward->get());
  return {status, desc};
}

}  // namespace

std::shared_ptr<const MemoryDesc::Native> MemoryDesc::Make(const Format& format) {
  auto md = std::make_shared<Native>();
  md->ndims = format.ndims;
  md->data_type = format.data_type;
  std::copy_n(format.dims, format.ndims, md->dims);
  std::copy_n(format.padded_dims, format.ndims, md->padded_dims);
  md->format_kind = format.is_any ? dnnl_format_kind_any : dnnl_blocked;
  if (format.is_any) return md;
  dnnl_blocking_desc_t& blocking = md->format_desc.blocking;
  std::copy_n(format.strides, format.ndims, blocking.strides);
  blocking.inner_nblks = format.inner_nblks;
  std::copy_n(format.inner_blks, format.inner_nblks, blocking.inner_blks);
  std::copy_n(format.inner_idxs, format.inner_nblks, blocking.inner_idxs);
  return md;
}

MemoryDesc MemoryDesc::CopyOf(const Native* native) {
  if (native == nullptr || native->ndims == 0) return {};
  return MemoryDesc(std::make_shared<Native>(*native));
}

MemoryDesc MemoryDesc::Named(int ndims, const dnnl_dim_t* dims, dnnl_data_type_t data_type, dnnl_format_tag_t name) {
  Native md{};
  Check(dnnl_memory_desc_init_by_tag(&md, ndims, dims, data_type, name), "dnnl_memory_desc_init_by_tag");
  return CopyOf(&md);
}

std::optional<Format> MemoryDesc::format() const {
  if (is_empty() || get()->format_kind != dnnl_blocked || get()->offset0 != 0 || get()->extra.flags != 0) return {};
  const Native& md = *get();
  if (!std::all_of(md.padded_offsets, md.padded_offsets + md.ndims, [](dnnl_dim_t at) { return at == 0; })) return {};
  Format format;
  format.data_type = md.data_type;
  format.ndims = md.ndims;
  std::copy_n(md.dims, md.ndims, format.dims);
  std::copy_n(md.padded_dims, md.ndims, format.padded_dims);
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  std::copy_n(blocking.strides, md.ndims, format.strides);
  format.inner_nblks = blocking.inner_nblks;
  std::copy_n(blocking.inner_blks, blocking.inner_nblks, format.inner_blks);
  std::copy_n(blocking.inner_idxs, blocking.inner_nblks, format.inner_idxs);
  return format;
}

PrimitiveDesc Convolution(dnnl_prop_kind_t kind, const ConvolutionProblem& p, const PostOps& post_ops) {
  dnnl_convolution_desc_t op{};
  const Windows& w = p.windows;
  return Create(dnnl_dilated_convolution_forward_desc_init(&op, kind, p.algorithm, p.x.get(), p.w.get(), p.bias.get(),
                                                           p.y.get(), w.strides, w.gaps, w.pad_begin, w.pad_end),
                &op, post_ops);
}

PrimitiveDesc ConvolutionBackwardData(const ConvolutionProblem& p, const PrimitiveDesc& forward) {
  dnnl_convolution_desc_t op{};
  const Windows& w = p.windows;
  return Create(dnnl_dilated_convolution_backward_data_desc_init(&op, p.algorithm, p.x.get(), p.w.get(), p.y.get(),
                                                                 w.strides, w.gaps, w.pad_begin, w.pad_end),
                &op, {}, &forward);
}

PrimitiveDesc ConvolutionBackwardWeights(const ConvolutionProblem& p, const PrimitiveDesc& forward) {
  dnnl_convolution_desc_t op{};
  const Windows& w = p.windows;
  return Create(
      dnnl_dilated_convolution_backward_weights_desc_init(&op, p.algorithm, p.x.get(), p.w.get(), p.bias.get(),
                                                          p.y.get(), w.strides, w.gaps, w.pad_begin, w.pad_end),
      &op, {}, &forward);
}

PrimitiveDesc Pool(dnnl_prop_kind_t kind, const PoolProblem& p) {
  dnnl_pooling_desc_t op{};
  const Windows& w = p.windows;
  return Create(dnnl_pooling_forward_desc_init(&op, kind, p.algorithm, p.x.get(), p.y.get(), w.strides, w.kernel,
                                               w.pad_begin, w.pad_end),
                &op);
}

PrimitiveDesc PoolBackward(const PoolProblem& p, const PrimitiveDesc& forward) {
  dnnl_pooling_desc_t op{};
  const Windows& w = p.windows;
  return Create(dnnl_pooling_backward_desc_init(&op, p.algorithm, p.x.get(), p.y.get(), w.strides, w.kernel,
                                                w.pad_begin, w.pad_end),
                &op, {}, &forward);
}

PrimitiveDesc Lrn(dnnl_prop_kind_t kind, const LrnProblem& p) {
  dnnl_lrn_desc_t op{};
  return Create(dnnl_lrn_forward_desc_init(&op, kind, p.algorithm, p.x.get(), p.size, p.alpha, p.beta, p.k), &op);
}

PrimitiveDesc LrnBackward(const LrnProblem& p, const PrimitiveDesc& forward) {
  dnnl_lrn_desc_t op{};
  return Create(dnnl_lrn_backward_desc_init(&op, p.algorithm, p.x.get(), p.x.get(), p.size, p.alpha, p.beta, p.k), &op,
                {}, &forward);
}

PrimitiveDesc Softmax(const MemoryDesc& x, int axis) {
  dnnl_softmax_desc_t op{};
  return Create(dnnl_softmax_forward_desc_init(&op, dnnl_forward_training, x.get(), axis), &op);
}

PrimitiveDesc SoftmaxBackward(const MemoryDesc& y, int axis, const PrimitiveDesc& forward) {
  dnnl_softmax_desc_t op{};
  return Create(dnnl_softmax_backward_desc_init(&op, y.get(), y.get(), axis), &op, {}, &forward);
}

PrimitiveDesc Product(const MemoryDesc& a, const MemoryDesc& b, const MemoryDesc& bias, const MemoryDesc& y,
                      const PostOps& post_ops) {
  dnnl_matmul_desc_t op{};
  return Create(dnnl_matmul_desc_init(&op, a.get(), b.get(), bias.get(), y.get()), &op, post_ops);
}

PrimitiveDesc Reorder(const MemoryDesc& from, const MemoryDesc& to, std::span<const float> scales) {
  const Owned<dnnl_primitive_attr> attr = MakeAttributes(scales);
  dnnl_primitive_desc_t desc = nullptr;
  const dnnl_status_t status =
      dnnl_reorder_primitive_desc_create(&desc, from.get(), Engine(), to.get(), Engine(), attr.get());
  return {status, desc};
}

PrimitiveDesc Concat(std::span<const MemoryDesc> from, const MemoryDesc& to, int axis) {
  std::vector<dnnl_memory_desc_t> parts;
  for (const MemoryDesc& part : from) parts.push_back(*part.get());
  const Owned<dnnl_primitive_attr> attr = MakeAttributes();
  dnnl_primitive_desc_t desc = nullptr;
  const dnnl_status_t status = dnnl_concat_primitive_desc_create(&desc, to.get(), static_cast<int>(parts.size()), axis,
                                                                 parts.data(), attr.get(), Engine());
  return {status, desc};
}

}  // namespace moka::onednn
#endif
