// Layouts become memory descriptors and back by their strides and inner blocks; a descriptor that no Layout expresses
// is refused. Every status is checked and becomes an Error with the library's word.
#include "layers/kernels/cpu/onednn/onednn.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/graph.h"

namespace moka::onednn {
namespace {

// Dimensions of a description before its format is set.
// oneDNN has no tensors of rank 0: a scalar becomes [1].
dnnl_memory_desc_t Skeleton(const TensorType& type) {
  Require(IsKnown(type.dtype), "a oneDNN description needs a dtype that oneDNN has");
  dnnl_memory_desc_t md{};
  md.ndims = std::max(1, type.shape.rank());
  md.data_type = DataType(type.dtype);
  md.dims[0] = 1;
  for (int i = 0; i < type.shape.rank(); ++i) md.dims[i] = type.shape[i];
  std::copy_n(md.dims, md.ndims, md.padded_dims);
  return md;
}

// The scratchpad is the user's: a program books it in its arena, so that a step allocates nothing.
Owned<dnnl_primitive_attr> MakeAttributes(const PostOps& wanted) {
  dnnl_primitive_attr_t attr = nullptr;
  Check(dnnl_primitive_attr_create(&attr), "dnnl_primitive_attr_create");
  Owned<dnnl_primitive_attr> owned(attr);
  Check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
        "dnnl_primitive_attr_set_scratchpad_mode");
  if (!wanted.scales.empty()) {
    const int mask = wanted.scales.size() == 1 ? 0 : 1 << wanted.scale_axis;
    Check(dnnl_primitive_attr_set_output_scales(attr, static_cast<dnnl_dim_t>(wanted.scales.size()), mask,
                                                wanted.scales.data()),
          "dnnl_primitive_attr_set_output_scales");
  }
  if (!wanted.sum && !wanted.relu) return owned;
  dnnl_post_ops_t post_ops = nullptr;
  Check(dnnl_post_ops_create(&post_ops), "dnnl_post_ops_create");
  const Owned<dnnl_post_ops> owned_post_ops(post_ops);
  // The order counts: the ReLU is of the total.
  if (wanted.sum)
    Check(dnnl_post_ops_append_sum_v2(post_ops, wanted.sum_scale, wanted.sum_type), "dnnl_post_ops_append_sum_v2");
  if (wanted.relu) {
    Check(dnnl_post_ops_append_eltwise(post_ops, 1.0F, dnnl_eltwise_relu, 0.0F, 0.0F), "dnnl_post_ops_append_eltwise");
  }
  Check(dnnl_primitive_attr_set_post_ops(attr, post_ops), "dnnl_primitive_attr_set_post_ops");
  return owned;
}

// Axes from slowest to fastest. A dimension of 1 has a stride without meaning; behind its equals it reproduces the
// strides oneDNN's own formats have.
std::array<int8_t, Shape::kMaxRank> OuterOrder(const dnnl_memory_desc_t& md, const Layout& blocks) {
  std::array<int8_t, Shape::kMaxRank> order{};
  const auto end = order.begin() + md.ndims;
  std::iota(order.begin(), end, int8_t{0});
  const auto& strides = md.format_desc.blocking.strides;
  std::stable_sort(order.begin(), end, [&](int8_t a, int8_t b) {
    if (strides[a] != strides[b]) return strides[a] > strides[b];
    return md.padded_dims[a] / blocks.BlockOf(a) > md.padded_dims[b] / blocks.BlockOf(b);
  });
  return order;
}

}  // namespace

std::string_view StatusText(dnnl_status_t status) {
  switch (status) {
    case dnnl_success: return "success";
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "not implemented for these types";
    case dnnl_iterator_ends: return "no further implementation";
    case dnnl_runtime_error: return "runtime error";
    case dnnl_not_required: return "not required";
  }
  return "unknown status";
}

void Check(dnnl_status_t status, std::string_view function) {
  if (status == dnnl_success) return;
  throw Error(ErrorKind::kUnavailable, StrCat("oneDNN: ", function, " failed: ", StatusText(status)));
}

// One engine and one stream for the process, never destroyed.
dnnl_engine_t Engine() {
  static dnnl_engine* const engine = [] {
    dnnl_engine_t made = nullptr;
    Check(dnnl_engine_create(&made, dnnl_cpu, 0), "dnnl_engine_create");
    return made;
  }();
  return engine;
}

dnnl_stream_t Stream() {
  static dnnl_stream* const stream = [] {
    dnnl_stream_t made = nullptr;
    Check(dnnl_stream_create(&made, Engine(), dnnl_stream_default_flags), "dnnl_stream_create");
    return made;
  }();
  return stream;
}

dnnl_data_type_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return dnnl_f32;
    case DType::kFloat16: return dnnl_f16;
    case DType::kBFloat16: return dnnl_bf16;
    case DType::kInt32: return dnnl_s32;
    case DType::kUInt8: return dnnl_u8;
    case DType::kInt8: return dnnl_s8;
    case DType::kFloat64:
    case DType::kInt64: break;
  }
  return dnnl_data_type_undef;
}

bool IsKnown(DType dtype) { return DataType(dtype) != dnnl_data_type_undef; }

// oneDNN's blocked format is the same idea as Layout: outer dimensions in an order, then inner blocks. Strides are
// those of the outer dimensions.
dnnl_memory_desc_t Describe(const TensorType& type) {
  dnnl_memory_desc_t md = Skeleton(type);
  md.format_kind = dnnl_blocked;
  dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  const Layout& layout = type.layout;
  const Shape padded = layout.Padded(type.shape);
  for (int i = 0; i < type.shape.rank(); ++i) md.padded_dims[i] = padded[i];
  Size stride = 1;
  blocking.inner_nblks = static_cast<uint8_t>(layout.block_count);
  for (int b = 0; b < layout.block_count; ++b) {
    const Layout::Block& block = layout.blocks[static_cast<size_t>(b)];
    blocking.inner_blks[b] = block.size;
    blocking.inner_idxs[b] = static_cast<uint8_t>(block.axis);
    stride *= block.size;
  }
  for (int i = md.ndims - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    const size_t axis = layout.is_plain() ? at : static_cast<uint8_t>(layout.order[at]);
    blocking.strides[axis] = stride.value();
    stride *= md.padded_dims[axis] / layout.BlockOf(static_cast<int>(axis));
  }
  return md;
}

dnnl_memory_desc_t DescribeAny(const TensorType& type) {
  dnnl_memory_desc_t md = Skeleton(type);
  md.format_kind = dnnl_format_kind_any;
  return md;
}

// A layout that shapes of 1 have simplified is said again in full: oneDNN compares descriptors by their strides and
// blocks, also where they make no difference.
dnnl_memory_desc_t DescribeAs(const TensorType& type, const Layout& layout) {
  const bool alike = layout.rank == type.shape.rank() && layout.Simplified(type.shape) == type.layout;
  return Describe(alike ? TensorType{type.dtype, type.shape, layout} : type);
}

// Asks for the layout of a 1x1 convolution of as many channels, as the library does not say otherwise which blocks its
// kernels are fastest on.
Layout FavoriteLayout(const TensorType& data) {
  const Shape& shape = data.shape;
  TensorType weights{data.dtype, shape.With(0, shape[1]), {}};
  for (int axis = 2; axis < shape.rank(); ++axis) weights.shape = weights.shape.With(axis, 1);
  const dnnl_memory_desc_t x = DescribeAny(data);
  const dnnl_memory_desc_t w = DescribeAny(weights);
  dnnl_dims_t ones{};
  dnnl_dims_t zeros{};
  std::fill_n(ones, shape.rank() - 2, 1);
  dnnl_convolution_desc_t op{};
  const dnnl_status_t status = dnnl_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_direct,
                                                                  &x, &w, nullptr, &x, ones, zeros, zeros);
  const PrimitiveDesc desc = PrimitiveDesc::Create(status, &op);
  if (!desc.ok()) return {};
  return LayoutOf(desc.md(dnnl_query_src_md)).value_or(Layout{});
}

dnnl_memory_desc_t Describe(const TensorType& type, Choice choice) {
  return choice == Choice::kFixed ? Describe(type) : DescribeAny(type);
}

// The way back. A descriptor with an offset, extra data (compensation of integers, Winograd's weights) or gaps is none
// that a Layout can say.
std::optional<Layout> LayoutOf(const dnnl_memory_desc_t& md) {
  if (md.format_kind != dnnl_blocked || md.offset0 != 0 || md.extra.flags != 0 || md.ndims > Shape::kMaxRank) return {};
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  if (blocking.inner_nblks > Layout::kMaxBlocks) return {};
  Layout layout;
  layout.rank = static_cast<int8_t>(md.ndims);
  layout.block_count = static_cast<int8_t>(blocking.inner_nblks);
  Size stride = 1;
  for (int b = 0; b < blocking.inner_nblks; ++b) {
    layout.blocks[static_cast<size_t>(b)] = {static_cast<int8_t>(blocking.inner_idxs[b]),
                                             static_cast<int16_t>(blocking.inner_blks[b])};
    stride *= blocking.inner_blks[b];
  }
  layout.order = OuterOrder(md, layout);
  for (int i = md.ndims - 1; i >= 0; --i) {
    const auto axis = static_cast<uint8_t>(layout.order[static_cast<size_t>(i)]);
    const int64_t block = layout.BlockOf(axis);
    if (md.padded_offsets[axis] != 0 || md.padded_dims[axis] != RoundUp(md.dims[axis], block).value()) return {};
    const int64_t count = md.padded_dims[axis] / block;
    if (count > 1 && blocking.strides[axis] != stride.value()) return {};
    stride *= count;
  }
  // Axes in their own order without blocks are the plain layout, which has one name only.
  const bool sorted = std::is_sorted(layout.order.begin(), layout.order.begin() + md.ndims);
  return sorted && layout.block_count == 0 ? Layout{} : layout;
}

int64_t BytesOf(const dnnl_memory_desc_t& md) {
  return IsEmpty(md) ? 0 : static_cast<int64_t>(dnnl_memory_desc_get_size(&md));
}

// A status of failure is kept, not thrown: "not implemented" is the usual answer to a question about layouts.
PrimitiveDesc PrimitiveDesc::Create(dnnl_status_t init, const_dnnl_op_desc_t op, const PostOps& post_ops,
                                    const PrimitiveDesc* forward) {
  PrimitiveDesc result;
  result.status_ = init;
  if (init != dnnl_success) return result;
  const Owned<dnnl_primitive_attr> attr = MakeAttributes(post_ops);
  dnnl_primitive_desc_t desc = nullptr;
  result.status_ =
      dnnl_primitive_desc_create(&desc, op, attr.get(), Engine(), forward == nullptr ? nullptr : forward->get());
  result.desc_.reset(result.status_ == dnnl_success ? desc : nullptr);
  return result;
}

PrimitiveDesc PrimitiveDesc::Reorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to,
                                     const PostOps& post_ops) {
  PrimitiveDesc result;
  const Owned<dnnl_primitive_attr> attr = MakeAttributes(post_ops);
  dnnl_primitive_desc_t desc = nullptr;
  result.status_ = dnnl_reorder_primitive_desc_create(&desc, &from, Engine(), &to, Engine(), attr.get());
  result.desc_.reset(result.status_ == dnnl_success ? desc : nullptr);
  return result;
}

PrimitiveDesc PrimitiveDesc::Concat(std::span<const dnnl_memory_desc_t> from, const dnnl_memory_desc_t* to, int axis) {
  PrimitiveDesc result;
  const Owned<dnnl_primitive_attr> attr = MakeAttributes({});
  dnnl_primitive_desc_t desc = nullptr;
  result.status_ = dnnl_concat_primitive_desc_create(&desc, to, static_cast<int>(from.size()), axis, from.data(),
                                                     attr.get(), Engine());
  result.desc_.reset(result.status_ == dnnl_success ? desc : nullptr);
  return result;
}

std::string PrimitiveDesc::Refusal() const {
  return ok() ? std::string() : StrCat("oneDNN has no primitive: ", StatusText(status_));
}

dnnl_memory_desc_t PrimitiveDesc::md(dnnl_query_t what, int index) const {
  const dnnl_memory_desc_t* md = dnnl_primitive_desc_query_md(desc_.get(), what, index);
  return md == nullptr ? dnnl_memory_desc_t{} : *md;
}

std::string_view PrimitiveDesc::implementation() const {
  const char* text = nullptr;
  Check(dnnl_primitive_desc_query(desc_.get(), dnnl_query_impl_info_str, 0, static_cast<void*>(&text)),
        "dnnl_primitive_desc_query");
  return text;
}

int64_t PrimitiveKernel::Book(int64_t bytes) {
  const int64_t offset = booked_bytes_;
  booked_bytes_ = RoundUp(Size(offset) + bytes, static_cast<int64_t>(Buffer::kAlignment)).value();
  return offset;
}

// Steps run one after another and share one scratchpad, as large as the largest needs.
void PrimitiveKernel::Add(const PrimitiveDesc& desc, std::vector<Argument> arguments) {
  dnnl_primitive_t primitive = nullptr;
  Check(dnnl_primitive_create(&primitive, desc.get()), "dnnl_primitive_create");
  Step step;
  step.primitive.reset(primitive);
  step.arguments = std::move(arguments);
  step.scratchpad = desc.md(dnnl_query_scratchpad_md);
  scratchpad_bytes_ = std::max(scratchpad_bytes_, BytesOf(step.scratchpad));
  steps_.push_back(std::move(step));
  implementation_ += StrCat(implementation_.empty() ? "" : "+", desc.implementation());
}

int64_t PrimitiveKernel::scratch_bytes() const { return (Size(booked_bytes_) + scratchpad_bytes_).value(); }

// Memory objects are made once here; Run executes with the same arguments each time.
void PrimitiveKernel::Bind(const KernelArgs& args) {
  for (Step& step : steps_) {
    step.memories.clear();
    step.exec.clear();
    const auto add = [&step](int key, const dnnl_memory_desc_t& md, void* data) {
      dnnl_memory_t memory = nullptr;
      Check(dnnl_memory_create(&memory, &md, Engine(), data), "dnnl_memory_create");
      step.memories.emplace_back(memory);
      step.exec.push_back({key, memory});
    };
    for (const Argument& argument : step.arguments) {
      const auto at = static_cast<size_t>(argument.at);
      switch (argument.place) {
        case Place::kInput: add(argument.key, argument.md, args.inputs[at].raw()); break;
        case Place::kOutput: add(argument.key, argument.md, args.outputs[at].raw()); break;
        case Place::kScratch: add(argument.key, argument.md, args.scratch + at); break;
      }
    }
    if (!IsEmpty(step.scratchpad)) add(DNNL_ARG_SCRATCHPAD, step.scratchpad, args.scratch + booked_bytes_);
  }
  // oneDNN's sum post-op adds to what is in the output, so the summand is copied there first, unless the planner has
  // put it there.
  copy_bytes_ = 0;
  if (copied_input_ < 0) return;
  const Tensor& from = args.inputs[static_cast<size_t>(copied_input_)];
  copy_from_ = static_cast<const std::byte*>(from.raw());
  copy_to_ = static_cast<std::byte*>(args.outputs[0].raw());
  copy_bytes_ = copy_from_ == copy_to_ ? 0 : from.type().Bytes();
}

void PrimitiveKernel::Run() {
  constexpr int64_t kGrain = 1 << 16;  // below this many bytes a second thread costs more than it copies
  ParallelFor(copy_bytes_, kGrain, [this](int64_t begin, int64_t end, int) {
    std::memcpy(copy_to_ + begin, copy_from_ + begin, static_cast<size_t>(end - begin));
  });
  for (const Step& step : steps_) {
    const dnnl_status_t status =
        dnnl_primitive_execute(step.primitive.get(), Stream(), static_cast<int>(step.exec.size()), step.exec.data());
    if (status != dnnl_success) status_ = status;
  }
}

// Run does not throw (graph/kernel.h), so a status is reported here.
std::string PrimitiveKernel::TakeFault() {
  if (status_ == dnnl_success) return {};
  const dnnl_status_t status = std::exchange(status_, dnnl_success);
  return StrCat("oneDNN: dnnl_primitive_execute (", implementation_, ") failed: ", StatusText(status));
}

std::string RefuseTypes(const KernelQuery& query) {
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (!IsKnown(type.dtype)) return StrCat("oneDNN 2.6 has no ", NameOf(type.dtype));
      if (type.shape.Count() == 0) return StrCat("the tensor ", type.ToString(), " is empty");
    }
  }
  return {};
}

}  // namespace moka::onednn
