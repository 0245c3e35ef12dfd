// oneDNN's C interface, and descriptions of tensors in the words of both of its majors. oneDNN 2 shows its memory
// descriptors, oneDNN 3 keeps them closed; here a description is plain values (Format), which become one of the
// library's own (MemoryDesc) where a primitive is asked for. What the majors say differently is in version_2.cpp and
// version_3.cpp, one of which is empty. Private to layers/kernels/cpu/onednn and its tests, as all headers here are.
#pragma once

#include <dnnl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace moka::onednn {

// Errors: kUnavailable with the function and what the status means.
void Check(dnnl_status_t status, std::string_view function);
std::string_view StatusText(dnnl_status_t status);

// Made at the first use, shared by every kernel, alive until the process ends. Execution on the CPU stream happens in
// the calling thread and its OpenMP team, so several threads may use it.
dnnl_engine_t Engine();
dnnl_stream_t Stream();

// A tensor as oneDNN's blocked formats have it: outer dimensions by their strides, then inner blocks from the outermost
// to the innermost. The fields are called as the library calls them.
struct Format {
  dnnl_data_type_t data_type = dnnl_data_type_undef;
  int ndims = 0;
  dnnl_dims_t dims{};
  dnnl_dims_t padded_dims{};
  bool is_any = false;  // the layout is left to oneDNN, and what follows says nothing
  dnnl_dims_t strides{};
  int inner_nblks = 0;
  dnnl_dims_t inner_blks{};
  dnnl_dims_t inner_idxs{};
};

// The library's own description, which may hold more than a Format says (sums behind weights, opaque workspaces).
// Copies share it; nothing changes it.
class MemoryDesc {
 public:
  // The library's type, whose contents only oneDNN 2 shows.
  using Native =
      std::remove_const_t<std::remove_pointer_t<decltype(dnnl_primitive_desc_query_md(nullptr, dnnl_query_src_md, 0))>>;

  // Describes no tensor: an operand that an operation is asked to do without, a scratchpad that it does not need.
  MemoryDesc() = default;
  // Empty where the library has no description of the format: oneDNN 3 knows blocks only in the layouts that have a
  // name there. Implicit, as each place that takes one takes a format.
  MemoryDesc(const Format& format) : native_(Make(format)) {}
  static MemoryDesc CopyOf(const Native* native);
  // One of the library's named formats.
  static MemoryDesc Named(int ndims, const dnnl_dim_t* dims, dnnl_data_type_t data_type, dnnl_format_tag_t name);

  bool is_empty() const { return native_ == nullptr; }
  // Null if empty.
  const Native* get() const { return native_.get(); }
  // Returns the bytes that the tensor takes, padding included; 0 if empty.
  int64_t bytes() const;
  // None if a Format cannot say it: empty, layout still open, opaque, extra data, part of another tensor.
  std::optional<Format> format() const;

  // As the library compares: also strides and blocks that make no difference count.
  friend bool operator==(const MemoryDesc& a, const MemoryDesc& b);

 private:
  explicit MemoryDesc(std::shared_ptr<const Native> native) : native_(std::move(native)) {}
  static std::shared_ptr<const Native> Make(const Format& format);

  std::shared_ptr<const Native> native_;
};

}  // namespace moka::onednn
