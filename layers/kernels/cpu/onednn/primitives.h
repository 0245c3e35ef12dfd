// The primitives that Moka asks oneDNN for, in the words of both of its majors: an operation's operands and numbers,
// what follows it in the same pass, and the implementation that the library chooses. oneDNN 2 has a descriptor of each
// operation, from which a primitive is then made, and takes scales with the request; oneDNN 3 makes the primitive at
// once and reads scales when it runs. The functions are in version_2.cpp and version_3.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/kernels/cpu/onednn/library.h"

namespace moka::onednn {

// Deleters of the library's handles.
struct Destroy {
  void operator()(dnnl_primitive_desc_t p) const { dnnl_primitive_desc_destroy(p); }
  void operator()(dnnl_primitive_attr_t p) const { dnnl_primitive_attr_destroy(p); }
  void operator()(dnnl_post_ops_t p) const { dnnl_post_ops_destroy(p); }
  void operator()(dnnl_primitive_t p) const { dnnl_primitive_destroy(p); }
  void operator()(dnnl_memory_t p) const { dnnl_memory_destroy(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Destroy>;

// The operations that follow a convolution or product in the same pass over its output, in this order.
struct PostOps {
  // A factor for each output of a convolution of 8-bit integers, of its sum with the bias; empty: none.
  std::vector<float> scales = {};
  bool sum = false;  // adds what the output held before, as `sum_type` (undefined: the output's) times sum_scale
  float sum_scale = 1;
  dnnl_data_type_t sum_type = dnnl_data_type_undef;
  bool relu = false;
};

// Values that a primitive reads whenever it runs, beside its operands: the scales of oneDNN 3.
struct Constant {
  int key = 0;  // DNNL_ARG_...
  MemoryDesc md;
  std::vector<float> values;
};

// The implementation oneDNN chose for an operation, or why there is none. Scratch memory is given by the caller.
class PrimitiveDesc {
 public:
  PrimitiveDesc() = default;
  // Takes over a descriptor, if the status says that there is one. A status of failure is kept, not thrown: "not
  // implemented" is the usual answer to a question about layouts.
  PrimitiveDesc(dnnl_status_t status, dnnl_primitive_desc_t desc, std::vector<Constant> constants = {});

  bool ok() const { return desc_ != nullptr; }
  // Empty if ok, otherwise a sentence.
  std::string Refusal() const;
  const_dnnl_primitive_desc_t get() const { return desc_.get(); }
  // Empty if the primitive has no such tensor.
  MemoryDesc md(dnnl_query_t what, int index = 0) const;
  std::string_view implementation() const;
  const std::vector<Constant>& constants() const { return constants_; }

 private:
  Owned<dnnl_primitive_desc> desc_;
  dnnl_status_t status_ = dnnl_unimplemented;
  std::vector<Constant> constants_;
};

// Windows over the spatial axes of a convolution or pooling.
struct Windows {
  dnnl_dims_t kernel{};  // of a pooling: a convolution's weights say it
  dnnl_dims_t strides{};
  dnnl_dims_t gaps{};  // between the taps of a convolution
  dnnl_dims_t pad_begin{};
  dnnl_dims_t pad_end{};
};

// The problem that a convolution and its gradients share: x, w, y and the bias are those tensors or their gradients.
struct ConvolutionProblem {
  dnnl_alg_kind_t algorithm = dnnl_convolution_direct;
  MemoryDesc x;
  MemoryDesc w;
  MemoryDesc bias;  // empty: none
  MemoryDesc y;
  Windows windows;
};
PrimitiveDesc Convolution(dnnl_prop_kind_t kind, const ConvolutionProblem& p, const PostOps& post_ops = {});
// The gradients want the forward descriptor that they belong to; only its shapes matter.
PrimitiveDesc ConvolutionBackwardData(const ConvolutionProblem& p, const PrimitiveDesc& forward);
PrimitiveDesc ConvolutionBackwardWeights(const ConvolutionProblem& p, const PrimitiveDesc& forward);

// x and y are those tensors or their gradients.
struct PoolProblem {
  dnnl_alg_kind_t algorithm = dnnl_pooling_max;
  MemoryDesc x;
  MemoryDesc y;
  Windows windows;
};
PrimitiveDesc Pool(dnnl_prop_kind_t kind, const PoolProblem& p);
PrimitiveDesc PoolBackward(const PoolProblem& p, const PrimitiveDesc& forward);

// Every tensor of a local response normalisation lies as x does.
struct LrnProblem {
  dnnl_alg_kind_t algorithm = dnnl_lrn_across_channels;
  MemoryDesc x;
  int64_t size = 0;
  float alpha = 0;
  float beta = 0;
  float k = 0;
};
PrimitiveDesc Lrn(dnnl_prop_kind_t kind, const LrnProblem& p);
PrimitiveDesc LrnBackward(const LrnProblem& p, const PrimitiveDesc& forward);

// Inputs and output lie as x, or as y, does.
PrimitiveDesc Softmax(const MemoryDesc& x, int axis);
PrimitiveDesc SoftmaxBackward(const MemoryDesc& y, int axis, const PrimitiveDesc& forward);

// y = a b + bias. An empty bias is none.
PrimitiveDesc Product(const MemoryDesc& a, const MemoryDesc& b, const MemoryDesc& bias, const MemoryDesc& y,
                      const PostOps& post_ops = {});

// Copies, and multiplies while it copies: by one factor, or by one for each index of the first axis; empty: by none.
PrimitiveDesc Reorder(const MemoryDesc& from, const MemoryDesc& to, std::span<const float> scales = {});
PrimitiveDesc Concat(std::span<const MemoryDesc> from, const MemoryDesc& to, int axis);

}  // namespace moka::onednn
