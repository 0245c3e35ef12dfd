// Layouts become descriptions and back by their strides and inner blocks; a description that no Layout expresses is
// refused. A kernel makes its memory objects once, when it is bound.
#include "layers/kernels/cpu/onednn/onednn.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/graph.h"
#include "layers/kernels/cpu/instructions.h"

namespace moka::onednn {
namespace {

// Dimensions of a description before its format is set.
// oneDNN has no tensors of rank 0: a scalar becomes [1].
Format Skeleton(const TensorType& type) {
  Require(IsKnown(type.dtype), "a oneDNN description needs a dtype that oneDNN has");
  Format format;
  format.ndims = std::max(1, type.shape.rank());
  format.data_type = DataType(type.dtype);
  format.dims[0] = 1;
  for (int i = 0; i < type.shape.rank(); ++i) format.dims[i] = type.shape[i];
  std::copy_n(format.dims, format.ndims, format.padded_dims);
  return format;
}

// Axes from slowest to fastest. A dimension of 1 has a stride without meaning; behind its equals it reproduces the
// strides oneDNN's own formats have.
std::array<int8_t, Shape::kMaxRank> OuterOrder(const Format& format, const Layout& blocks) {
  std::array<int8_t, Shape::kMaxRank> order{};
  const auto end = order.begin() + format.ndims;
  std::iota(order.begin(), end, int8_t{0});
  const auto& strides = format.strides;
  std::stable_sort(order.begin(), end, [&](int8_t a, int8_t b) {
    if (strides[a] != strides[b]) return strides[a] > strides[b];
    return format.padded_dims[a] / blocks.BlockOf(a) > format.padded_dims[b] / blocks.BlockOf(b);
  });
  return order;
}

}  // namespace

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
Format Describe(const TensorType& type) {
  Format format = Skeleton(type);
  const Layout& layout = type.layout;
  const Shape padded = layout.Padded(type.shape);
  for (int i = 0; i < type.shape.rank(); ++i) format.padded_dims[i] = padded[i];
  Size stride = 1;
  format.inner_nblks = layout.block_count;
  for (int b = 0; b < layout.block_count; ++b) {
    const Layout::Block& block = layout.blocks[static_cast<size_t>(b)];
    format.inner_blks[b] = block.size;
    format.inner_idxs[b] = static_cast<uint8_t>(block.axis);
    stride *= block.size;
  }
  for (int i = format.ndims - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    const size_t axis = layout.is_plain() ? at : static_cast<uint8_t>(layout.order[at]);
    format.strides[axis] = stride.value();
    stride *= format.padded_dims[axis] / layout.BlockOf(static_cast<int>(axis));
  }
  return format;
}

Format DescribeAny(const TensorType& type) {
  Format format = Skeleton(type);
  format.is_any = true;
  return format;
}

// A layout that shapes of 1 have simplified is said again in full: oneDNN compares descriptors by their strides and
// blocks, also where they make no difference.
Format DescribeAs(const TensorType& type, const Layout& layout) {
  const bool alike = layout.rank == type.shape.rank() && layout.Simplified(type.shape) == type.layout;
  return Describe(alike ? TensorType{type.dtype, type.shape, layout} : type);
}

// Asks for the layout of a 1x1 convolution of as many channels, as the library does not say otherwise which blocks its
// kernels are fastest on.
Layout FavoriteLayout(const TensorType& data) {
  const Shape& shape = data.shape;
  TensorType weights{data.dtype, shape.With(0, shape[1]), {}};
  for (int axis = 2; axis < shape.rank(); ++axis) weights.shape = weights.shape.With(axis, 1);
  const MemoryDesc x = DescribeAny(data);
  ConvolutionProblem p{.x = x, .w = DescribeAny(weights), .bias = {}, .y = x, .windows = {}};
  std::fill_n(p.windows.strides, shape.rank() - 2, 1);
  const PrimitiveDesc desc = Convolution(dnnl_forward_training, p);
  if (!desc.ok()) return {};
  return LayoutOf(desc.md(dnnl_query_src_md)).value_or(Layout{});
}

Format Describe(const TensorType& type, Choice choice) {
  return choice == Choice::kFixed ? Describe(type) : DescribeAny(type);
}

// The way back. A description with gaps is none that a Layout can say.
std::optional<Layout> LayoutOf(const Format& format) {
  if (format.is_any || format.ndims > Shape::kMaxRank || format.inner_nblks > Layout::kMaxBlocks) return {};
  Layout layout;
  layout.rank = static_cast<int8_t>(format.ndims);
  layout.block_count = static_cast<int8_t>(format.inner_nblks);
  Size stride = 1;
  for (int b = 0; b < format.inner_nblks; ++b) {
    layout.blocks[static_cast<size_t>(b)] = {static_cast<int8_t>(format.inner_idxs[b]),
                                             static_cast<int16_t>(format.inner_blks[b])};
    stride *= format.inner_blks[b];
  }
  layout.order = OuterOrder(format, layout);
  for (int i = format.ndims - 1; i >= 0; --i) {
    const auto axis = static_cast<uint8_t>(layout.order[static_cast<size_t>(i)]);
    const int64_t block = layout.BlockOf(axis);
    if (format.padded_dims[axis] != RoundUp(format.dims[axis], block).value()) return {};
    const int64_t count = format.padded_dims[axis] / block;
    if (count > 1 && format.strides[axis] != stride.value()) return {};
    stride *= count;
  }
  // Axes in their own order without blocks are the plain layout, which has one name only.
  const bool sorted = std::is_sorted(layout.order.begin(), layout.order.begin() + format.ndims);
  return sorted && layout.block_count == 0 ? Layout{} : layout;
}

std::optional<Layout> LayoutOf(const MemoryDesc& md) {
  const std::optional<Format> format = md.format();
  return format ? LayoutOf(*format) : std::nullopt;
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
  step.constants = desc.constants();
  step.scratchpad = desc.md(dnnl_query_scratchpad_md);
  scratchpad_bytes_ = std::max(scratchpad_bytes_, step.scratchpad.bytes());
  steps_.push_back(std::move(step));
  implementation_ += StrCat(implementation_.empty() ? "" : "+", desc.implementation());
}

int64_t PrimitiveKernel::scratch_bytes() const { return (Size(booked_bytes_) + scratchpad_bytes_).value(); }

// Memory objects are made once here; Run executes with the same arguments each time.
void PrimitiveKernel::Bind(const KernelArgs& args) {
  for (Step& step : steps_) {
    step.memories.clear();
    step.exec.clear();
    const auto add = [&step](int key, const MemoryDesc& md, void* data) {
      dnnl_memory_t memory = nullptr;
      Check(dnnl_memory_create(&memory, md.get(), Engine(), data), "dnnl_memory_create");
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
    for (Constant& constant : step.constants) add(constant.key, constant.md, constant.values.data());
    if (!step.scratchpad.is_empty()) add(DNNL_ARG_SCRATCHPAD, step.scratchpad, args.scratch + booked_bytes_);
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
      if (!IsKnown(type.dtype)) return StrCat("oneDNN has no ", NameOf(type.dtype));
      if (type.shape.Count() == 0) return StrCat("the tensor ", type.ToString(), " is empty");
    }
  }
  return {};
}

std::string RefuseFactors(const KernelQuery& query) {
  if (query.inputs[0].dtype == DType::kBFloat16 && !HasBFloat16Pairs()) {
    return "without AVX512-BF16 oneDNN multiplies bfloat16 at less than half of float32's rate";
  }
  return RefuseTypes(query);
}

}  // namespace moka::onednn
