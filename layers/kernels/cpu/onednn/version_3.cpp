// oneDNN 3: a memory descriptor is closed, so that it is made of strides or, where there are inner blocks, by its name;
// a primitive is made at once; scales are tensors that it reads when it runs. With oneDNN 2 this file is empty.
#include <dnnl_version.h>
#if DNNL_VERSION_MAJOR >= 3
#include <dnnl_debug.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "core/size.h"
#include "core/types.h"
#include "layers/kernels/cpu/onednn/primitives.h"

namespace moka::onednn {
namespace {

std::shared_ptr<const MemoryDesc::Native> Share(dnnl_memory_desc_t md) {
  return {md, [](dnnl_memory_desc_t owned) { dnnl_memory_desc_destroy(owned); }};
}

template <class T>
T Query(const_dnnl_memory_desc_t md, dnnl_query_t what) {
  T value{};
  Check(dnnl_memory_desc_query(md, what, static_cast<void*>(&value)), "dnnl_memory_desc_query");
  return value;
}

int RankOf(const_dnnl_memory_desc_t md) { return Query<int>(md, dnnl_query_ndims_s32); }

void CopyDims(const_dnnl_memory_desc_t md, dnnl_query_t what, int count, dnnl_dims_t& to) {
  std::copy_n(*Query<const dnnl_dims_t*>(md, what), count, to);
}

// Names of layouts --------------------------------------------------------------------------------------------------

struct NamedLayout {
  Layout layout;
  dnnl_format_tag_t name = dnnl_format_tag_undef;
};

// The library's names are written as Layout's are ("aBcd16b"); some have more axes or blocks than a Layout.
bool IsNameOfBlocks(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::ranges::find_if(name, is_digit);
  if (first == name.end() || first - name.begin() > Shape::kMaxRank || is_digit(name.back())) return false;
  return std::count_if(first, name.end(), [&](char c) { return !is_digit(c); }) <= Layout::kMaxBlocks;
}

// All layouts with blocks that have a name, as the library itself spells them.
const std::vector<NamedLayout>& NamedLayouts() {
  static const std::vector<NamedLayout> named = [] {
    std::vector<NamedLayout> list;
    for (int i = dnnl_format_tag_any + 1; i < dnnl_format_tag_last; ++i) {
      const auto tag = static_cast<dnnl_format_tag_t>(i);
      const std::string_view name = dnnl_fmt_tag2str(tag);
      if (IsNameOfBlocks(name)) list.push_back({Layout::Parse(name), tag});
    }
    return list;
  }();
  return named;
}

bool HasBlocksOf(const Layout& layout, const Format& format) {
  if (layout.rank != format.ndims || layout.block_count != format.inner_nblks) return false;
  for (int b = 0; b < format.inner_nblks; ++b) {
    const Layout::Block& block = layout.blocks[static_cast<size_t>(b)];
    if (block.axis != format.inner_idxs[b] || block.size != format.inner_blks[b]) return false;
  }
  return true;
}

enum class Fit : uint8_t { kNone, kSameMemory, kExact };

// The strides of an axis that is one block long make no difference to the memory.
Fit FitOf(const Layout& layout, const Format& format) {
  if (!HasBlocksOf(layout, format)) return Fit::kNone;
  Fit fit = Fit::kExact;
  Size stride = 1;
  for (int b = 0; b < format.inner_nblks; ++b) stride *= format.inner_blks[b];
  for (int i = format.ndims - 1; i >= 0; --i) {
    const int axis = layout.order[static_cast<size_t>(i)];
    const int64_t block = layout.BlockOf(axis);
    if (format.padded_dims[axis] != RoundUp(format.dims[axis], block).value()) return Fit::kNone;
    const int64_t count = format.padded_dims[axis] / block;
    if (format.strides[axis] != stride.value()) {
      if (count > 1) return Fit::kNone;
      fit = Fit::kSameMemory;
    }
    stride *= count;
  }
  return fit;
}

// The name of a format with blocks; undefined if it has none.
dnnl_format_tag_t NameOf(const Format& format) {
  dnnl_format_tag_t name = dnnl_format_tag_undef;
  for (const NamedLayout& named : NamedLayouts()) {
    const Fit fit = FitOf(named.layout, format);
    if (fit == Fit::kExact) return named.name;
    if (fit == Fit::kSameMemory && name == dnnl_format_tag_undef) name = named.name;
  }
  return name;
}

// Attributes --------------------------------------------------------------------------------------------------------

// A plain float32 tensor of the dimensions 1 but for one axis.
Format AlongAxis(int ndims, int axis, size_t count) {
  Format format;
  format.data_type = dnnl_f32;
  format.ndims = ndims;
  std::fill_n(format.dims, ndims, 1);
  format.dims[axis] = static_cast<dnnl_dim_t>(count);
  std::copy_n(format.dims, ndims, format.padded_dims);
  dnnl_dim_t stride = 1;
  for (int i = ndims - 1; i >= 0; --i) {
    format.strides[i] = stride;
    stride *= format.dims[i];
  }
  return format;
}

// The attributes of a primitive and what it will read because of them.
class Attributes {
 public:
  // The scratchpad is the user's: a program books it in its arena, so that a step allocates nothing.
  Attributes() {
    dnnl_primitive_attr_t attr = nullptr;
    Check(dnnl_primitive_attr_create(&attr), "dnnl_primitive_attr_create");
    attr_.reset(attr);
    Check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
          "dnnl_primitive_attr_set_scratchpad_mode");
  }

  // Factors of a whole input, or of each index of its first axis.
  void Scale(int input, std::span<const float> scales) {
    if (scales.empty()) return;
    Check(dnnl_primitive_attr_set_scales_mask(attr_.get(), input, scales.size() == 1 ? 0 : 1),
          "dnnl_primitive_attr_set_scales_mask");
    constants_.push_back(
        {DNNL_ARG_ATTR_SCALES | input, AlongAxis(1, 0, scales.size()), {scales.begin(), scales.end()}});
  }

  // The factors of a convolution's outputs multiply what oneDNN 2 multiplies with its output scales, the sum with its
  // bias: oneDNN 3's scales of weights leave the bias out, and a bias that was multiplied before would round otherwise.
  void Append(const PostOps& wanted, const MemoryDesc& y) {
    dnnl_post_ops_t post_ops = nullptr;
    Check(dnnl_post_ops_create(&post_ops), "dnnl_post_ops_create");
    const Owned<dnnl_post_ops> owned(post_ops);
    if (!wanted.scales.empty()) {
      const MemoryDesc factors = AlongAxis(RankOf(y.get()), 1, wanted.scales.size());
      Check(dnnl_post_ops_append_binary(post_ops, dnnl_binary_mul, factors.get()), "dnnl_post_ops_append_binary");
      constants_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, factors, wanted.scales});
    }
    // The order counts: the ReLU is of the total.
    if (wanted.sum) {
      Check(dnnl_post_ops_append_sum(post_ops, wanted.sum_scale, 0, wanted.sum_type), "dnnl_post_ops_append_sum");
    }
    if (wanted.relu) {
      Check(dnnl_post_ops_append_eltwise(post_ops, dnnl_eltwise_relu, 0.0F, 0.0F), "dnnl_post_ops_append_eltwise");
    }
    Check(dnnl_primitive_attr_set_post_ops(attr_.get(), post_ops), "dnnl_primitive_attr_set_post_ops");
  }

  const_dnnl_primitive_attr_t get() const { return attr_.get(); }
  const std::vector<Constant>& constants() const { return constants_; }

 private:
  Owned<dnnl_primitive_attr> attr_;
  std::vector<Constant> constants_;
};

// Calls make(where to put the descriptor) unless the library cannot be told an operand's layout.
template <class Make>
PrimitiveDesc Create(std::initializer_list<const MemoryDesc*> operands, const Attributes& attributes, Make&& make) {
  if (std::ranges::any_of(operands, [](const MemoryDesc* md) { return md->is_empty(); })) {
    return {dnnl_unimplemented, nullptr};
  }
  dnnl_primitive_desc_t desc = nullptr;
  const dnnl_status_t status = make(&desc);
  return {status, desc, attributes.constants()};
}

}  // namespace

// Memory descriptors ------------------------------------------------------------------------------------------------

std::shared_ptr<const MemoryDesc::Native> MemoryDesc::Make(const Format& format) {
  if (format.is_any || format.inner_nblks > 0) {
    const dnnl_format_tag_t name = format.is_any ? dnnl_format_tag_any : NameOf(format);
    return name == dnnl_format_tag_undef ? nullptr : Named(format.ndims, format.dims, format.data_type, name).native_;
  }
  dnnl_memory_desc_t md = nullptr;
  const dnnl_status_t status =
      dnnl_memory_desc_create_with_strides(&md, format.ndims, format.dims, format.data_type, format.strides);
  return status == dnnl_success ? Share(md) : nullptr;
}

MemoryDesc MemoryDesc::CopyOf(const Native* native) {
  if (native == nullptr || RankOf(native) == 0) return {};
  dnnl_memory_desc_t copy = nullptr;
  Check(dnnl_memory_desc_clone(&copy, native), "dnnl_memory_desc_clone");
  return MemoryDesc(Share(copy));
}

MemoryDesc MemoryDesc::Named(int ndims, const dnnl_dim_t* dims, dnnl_data_type_t data_type, dnnl_format_tag_t name) {
  dnnl_memory_desc_t md = nullptr;
  Check(dnnl_memory_desc_create_with_tag(&md, ndims, dims, data_type, name), "dnnl_memory_desc_create_with_tag");
  return MemoryDesc(Share(md));
}

// The library tells nothing of extra data (sums behind the weights of signed integers) but the bytes that they take.
std::optional<Format> MemoryDesc::format() const {
  if (is_empty() || Query<dnnl_format_kind_t>(get(), dnnl_query_format_kind) != dnnl_blocked) return {};
  if (Query<dnnl_dim_t>(get(), dnnl_query_submemory_offset_s64) != 0) return {};
  Format format;
  format.ndims = RankOf(get());
  format.data_type = Query<dnnl_data_type_t>(get(), dnnl_query_data_type);
  CopyDims(get(), dnnl_query_dims, format.ndims, format.dims);
  CopyDims(get(), dnnl_query_padded_dims, format.ndims, format.padded_dims);
  CopyDims(get(), dnnl_query_strides, format.ndims, format.strides);
  format.inner_nblks = Query<int>(get(), dnnl_query_inner_nblks_s32);
  CopyDims(get(), dnnl_query_inner_blks, format.inner_nblks, format.inner_blks);
  CopyDims(get(), dnnl_query_inner_idxs, format.inner_nblks, format.inner_idxs);
  return MemoryDesc(format).bytes() == bytes() ? std::optional(format) : std::nullopt;
}

// Operations --------------------------------------------------------------------------------------------------------

PrimitiveDesc Convolution(dnnl_prop_kind_t kind, const ConvolutionProblem& p, const PostOps& post_ops) {
  Attributes attributes;
  if (!p.y.is_empty()) attributes.Append(post_ops, p.y);
  const Windows& w = p.windows;
  return Create({&p.x, &p.w, &p.y}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_convolution_forward_primitive_desc_create(desc, Engine(), kind, p.algorithm, p.x.get(), p.w.get(),
                                                          p.bias.get(), p.y.get(), w.strides, w.gaps, w.pad_begin,
                                                          w.pad_end, attributes.get());
  });
}

PrimitiveDesc ConvolutionBackwardData(const ConvolutionProblem& p, const PrimitiveDesc& forward) {
  const Attributes attributes;
  const Windows& w = p.windows;
  return Create({&p.x, &p.w, &p.y}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_convolution_backward_data_primitive_desc_create(desc, Engine(), p.algorithm, p.x.get(), p.w.get(),
                                                                p.y.get(), w.strides, w.gaps, w.pad_begin, w.pad_end,
                                                                forward.get(), attributes.get());
  });
}

PrimitiveDesc ConvolutionBackwardWeights(const ConvolutionProblem& p, const PrimitiveDesc& forward) {
  const Attributes attributes;
  const Windows& w = p.windows;
  return Create({&p.x, &p.w, &p.y}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_convolution_backward_weights_primitive_desc_create(
        desc, Engine(), p.algorithm, p.x.get(), p.w.get(), p.bias.get(), p.y.get(), w.strides, w.gaps, w.pad_begin,
        w.pad_end, forward.get(), attributes.get());
  });
}

PrimitiveDesc Pool(dnnl_prop_kind_t kind, const PoolProblem& p) {
  const Attributes attributes;
  const Windows& w = p.windows;
  return Create({&p.x, &p.y}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_pooling_forward_primitive_desc_create(desc, Engine(), kind, p.algorithm, p.x.get(), p.y.get(),
                                                      w.strides, w.kernel, w.gaps, w.pad_begin, w.pad_end,
                                                      attributes.get());
  });
}

PrimitiveDesc PoolBackward(const PoolProblem& p, const PrimitiveDesc& forward) {
  const Attributes attributes;
  const Windows& w = p.windows;
  return Create({&p.x, &p.y}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_pooling_backward_primitive_desc_create(desc, Engine(), p.algorithm, p.x.get(), p.y.get(), w.strides,
                                                       w.kernel, w.gaps, w.pad_begin, w.pad_end, forward.get(),
                                                       attributes.get());
  });
}

PrimitiveDesc Lrn(dnnl_prop_kind_t kind, const LrnProblem& p) {
  const Attributes attributes;
  return Create({&p.x}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_lrn_forward_primitive_desc_create(desc, Engine(), kind, p.algorithm, p.x.get(), p.x.get(), p.size,
                                                  p.alpha, p.beta, p.k, attributes.get());
  });
}

PrimitiveDesc LrnBackward(const LrnProblem& p, const PrimitiveDesc& forward) {
  const Attributes attributes;
  return Create({&p.x}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_lrn_backward_primitive_desc_create(desc, Engine(), p.algorithm, p.x.get(), p.x.get(), p.x.get(), p.size,
                                                   p.alpha, p.beta, p.k, forward.get(), attributes.get());
  });
}

PrimitiveDesc Softmax(const MemoryDesc& x, int axis) {
  const Attributes attributes;
  return Create({&x}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_softmax_forward_primitive_desc_create(desc, Engine(), dnnl_forward_training, dnnl_softmax_accurate,
                                                      x.get(), x.get(), axis, attributes.get());
  });
}

PrimitiveDesc SoftmaxBackward(const MemoryDesc& y, int axis, const PrimitiveDesc& forward) {
  const Attributes attributes;
  return Create({&y}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_softmax_backward_primitive_desc_create(desc, Engine(), dnnl_softmax_accurate, y.get(), y.get(), y.get(),
                                                       axis, forward.get(), attributes.get());
  });
}

PrimitiveDesc Product(const MemoryDesc& a, const MemoryDesc& b, const MemoryDesc& bias, const MemoryDesc& y,
                      const PostOps& post_ops) {
  Attributes attributes;
  attributes.Append(post_ops, y);
  return Create({&a, &b, &y}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_matmul_primitive_desc_create(desc, Engine(), a.get(), b.get(), bias.get(), y.get(), attributes.get());
  });
}

PrimitiveDesc Reorder(const MemoryDesc& from, const MemoryDesc& to, std::span<const float> scales) {
  Attributes attributes;
  attributes.Scale(DNNL_ARG_FROM, scales);
  return Create({&from, &to}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_reorder_primitive_desc_create(desc, from.get(), Engine(), to.get(), Engine(), attributes.get());
  });
}

PrimitiveDesc Concat(std::span<const MemoryDesc> from, const MemoryDesc& to, int axis) {
  const Attributes attributes;
  std::vector<const_dnnl_memory_desc_t> parts;
  for (const MemoryDesc& part : from) parts.push_back(part.get());
  if (std::ranges::find(parts, nullptr) != parts.end()) return {dnnl_unimplemented, nullptr};
  return Create({&to}, attributes, [&](dnnl_primitive_desc_t* desc) {
    return dnnl_concat_primitive_desc_create(desc, Engine(), to.get(), static_cast<int>(parts.size()), axis,
                                             parts.data(), attributes.get());
  });
}

}  // namespace moka::onednn
#endif
