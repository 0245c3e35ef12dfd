// The one place that speaks oneDNN's C interface (v2.6): engine and stream, descriptors, primitives as kernels.
// Private to layers/kernels/cpu/onednn and its tests: it is the only header here that includes the library's.
#pragma once

#include <dnnl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "graph/kernel.h"

namespace moka::onednn {

// Errors: kUnavailable with the function and what the status means.
void Check(dnnl_status_t status, std::string_view function);
std::string_view StatusText(dnnl_status_t status);

// Made at the first use, shared by every kernel, alive until the process ends. Execution on the CPU stream happens in
// the calling thread and its OpenMP team, so several threads may use it.
dnnl_engine_t Engine();
dnnl_stream_t Stream();

// oneDNN's description of a type; a scalar becomes [1]. Requires: IsKnown(type.dtype).
dnnl_memory_desc_t Describe(const TensorType& type);
// The same with the layout left to oneDNN.
dnnl_memory_desc_t DescribeAny(const TensorType& type);
bool IsKnown(DType dtype);
dnnl_data_type_t DataType(DType dtype);  // undefined if not known
// Describe(type), but in another layout's terms where both put the elements alike: oneDNN tells [N,C,1,1] in channel
// blocks from the same memory said plainly, and has slow implementations only for a mixture.
dnnl_memory_desc_t DescribeAs(const TensorType& type, const Layout& layout);
// The layout oneDNN's convolutions like for data [N,C,spatial..].
Layout FavoriteLayout(const TensorType& data);
// Describe(type) if fixed, otherwise DescribeAny(type).
enum class Choice : uint8_t { kFixed, kAny };
dnnl_memory_desc_t Describe(const TensorType& type, Choice choice);
// The layout of a description; none if ours cannot say it (opaque formats, extra data, gaps between elements).
std::optional<Layout> LayoutOf(const dnnl_memory_desc_t& md);
// Whether a primitive has no tensor here (no workspace, no scratchpad).
inline bool IsEmpty(const dnnl_memory_desc_t& md) { return md.ndims == 0; }
// Returns the bytes that a tensor takes, padding included; 0 for none.
int64_t BytesOf(const dnnl_memory_desc_t& md);

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
  std::vector<float> scales = {};  // of 8-bit operations: factors along scale_axis, or one; empty: none
  int scale_axis = 1;
  bool sum = false;  // adds what the output held before, as `sum_type` (undefined: the output's) times sum_scale
  float sum_scale = 1;
  dnnl_data_type_t sum_type = dnnl_data_type_undef;
  bool relu = false;
};

// The implementation oneDNN chose for an operation, or why there is none.
class PrimitiveDesc {
 public:
  PrimitiveDesc() = default;
  // From the operation's descriptor and the status of its init function. Scratch memory is given by the caller.
  static PrimitiveDesc Create(dnnl_status_t init, const_dnnl_op_desc_t op, const PostOps& post_ops = {},
                              const PrimitiveDesc* forward = nullptr);
  static PrimitiveDesc Reorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to,
                               const PostOps& post_ops = {});
  // to: null to let oneDNN choose.
  static PrimitiveDesc Concat(std::span<const dnnl_memory_desc_t> from, const dnnl_memory_desc_t* to, int axis);

  bool ok() const { return desc_ != nullptr; }
  // Empty if ok, otherwise a sentence.
  std::string Refusal() const;
  const_dnnl_primitive_desc_t get() const { return desc_.get(); }
  // Empty (IsEmpty) if the primitive has no such tensor.
  dnnl_memory_desc_t md(dnnl_query_t what, int index = 0) const;
  std::string_view implementation() const;

 private:
  Owned<dnnl_primitive_desc> desc_;
  dnnl_status_t status_ = dnnl_unimplemented;
};

// Where an argument of a primitive lives.
enum class Place : uint8_t { kInput, kOutput, kScratch };
struct Argument {
  int key = 0;  // DNNL_ARG_...
  dnnl_memory_desc_t md{};
  Place place = Place::kInput;
  int64_t at = 0;  // index of the input or output, or offset in scratch
};

// A kernel that executes primitives one after another on fixed memory.
class PrimitiveKernel final : public Kernel {
 public:
  // Reserves scratch that lives through the whole Run; returns its offset.
  int64_t Book(int64_t bytes);
  // Adds a step. Requires: desc.ok().
  void Add(const PrimitiveDesc& desc, std::vector<Argument> arguments);
  // Before the first step, input i is copied to output 0 (unless they are the same memory): what a sum adds to.
  void CopyFirst(int input) { copied_input_ = input; }

  void Bind(const KernelArgs& args) override;
  void Run() override;
  int64_t scratch_bytes() const override;
  bool CanFault() const override { return true; }
  std::string TakeFault() override;
  std::string_view implementation() const override { return implementation_; }

 private:
  struct Step {
    Owned<dnnl_primitive> primitive;
    std::vector<Argument> arguments;
    dnnl_memory_desc_t scratchpad{};
    std::vector<Owned<dnnl_memory>> memories;
    std::vector<dnnl_exec_arg_t> exec;
  };

  std::vector<Step> steps_;
  int64_t booked_bytes_ = 0;
  int64_t scratchpad_bytes_ = 0;
  int copied_input_ = -1;
  const std::byte* copy_from_ = nullptr;
  std::byte* copy_to_ = nullptr;
  int64_t copy_bytes_ = 0;
  dnnl_status_t status_ = dnnl_success;
  std::string implementation_;
};

// Reasons shared by all: a dtype oneDNN does not know, an empty tensor. Empty if there is none.
std::string RefuseTypes(const KernelQuery& query);

}  // namespace moka::onednn
