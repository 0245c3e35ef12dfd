// Data movement: cast, full, positions, expand, transpose, concat, slice, flip and reorder. Each copy is a walk over
// dimensions with a stride on either side, in the order in which the output lies, so that writes are coalesced; what
// transposes goes through tiles, so that reads are too. Any layout without blocks. Values are moved as bits of their
// width.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/launch_tiles.cuh"
#include "layers/kernels/cuda/strides.cuh"
#include "layers/kernels/cuda/types.cuh"
#include "layers/ops/visit.h"

namespace moka {
namespace {

// Copies --------------------------------------------------------------------------------------------------------------

using cuda::Strides;
using cuda::StridesOf;

// Where an element of a walk lies on either side.
struct Ends {
  int64_t from;
  int64_t to;
};

struct Walk {
  int rank = 0;
  int64_t count = 1;
  int64_t dims[Shape::kMaxRank] = {};  // slowest first
  int64_t from[Shape::kMaxRank] = {};
  int64_t to[Shape::kMaxRank] = {};
  int64_t from_start = 0;
  int64_t to_start = 0;

  // Neighbouring dimensions that walk as one are joined: an index is then split by fewer divisions, the costliest thing
  // that a copying thread does.
  void Add(int64_t dim, int64_t from_stride, int64_t to_stride) {
    count *= dim;
    if (dim == 1) return;
    if (rank > 0 && from[rank - 1] == from_stride * dim && to[rank - 1] == to_stride * dim) {  // two that walk as one
      dims[rank - 1] *= dim;
      from[rank - 1] = from_stride;
      to[rank - 1] = to_stride;
      return;
    }
    dims[rank] = dim;
    from[rank] = from_stride;
    to[rank++] = to_stride;
  }
  // The slowest dimension takes what is left, so that a walk of one dimension divides nothing.
  __host__ __device__ Ends At(int64_t i) const {
    Ends ends{from_start, to_start};
    for (int d = rank - 1; d > 0; --d) {
      const int64_t at = i % dims[d];
      ends.from += at * from[d];
      ends.to += at * to[d];
      i /= dims[d];
    }
    if (rank > 0) {
      ends.from += i * from[0];
      ends.to += i * to[0];
    }
    return ends;
  }
};

template <class T>
struct CopyEach {
  Walk walk;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    const Ends ends = walk.At(i);
    y[ends.to] = x[ends.from];
  }
};

// A walk over [rest.., rows, columns], where columns are neighbours in the input and rows are in the output.
struct Transposition {
  Walk rest;
  int64_t rows;
  int64_t columns;
  int64_t row_from;  // from a row to the next in the input
  int64_t column_to;
};

// None where neighbours stay neighbours, or where a tile would be mostly empty.
// Threads in the output's order would read a line of a transposed input for each element. A tile of 32 x 32 goes
// through shared memory instead, read along the input's rows and written along the output's (Ruetsch and Micikevicius,
// "Optimizing Matrix Transpose in CUDA", 2009).
std::optional<Transposition> TranspositionOf(const Walk& walk) {
  constexpr int64_t kLeast = cuda::TileGrid::kEdge / 4;
  const int last = walk.rank - 1;
  if (last < 1 || walk.to[last] != 1 || walk.from[last] == 0 || walk.from[last] == 1) return {};
  const int across = static_cast<int>(std::ranges::find(walk.from, walk.from + last, 1) - walk.from);
  if (across == last || walk.dims[last] < kLeast || walk.dims[across] < kLeast) return {};
  Transposition t{{}, walk.dims[last], walk.dims[across], walk.from[last], walk.to[across]};
  t.rest.from_start = walk.from_start;
  t.rest.to_start = walk.to_start;
  for (int d = 0; d < last; ++d) {
    if (d != across) t.rest.Add(walk.dims[d], walk.from[d], walk.to[d]);
  }
  return t;
}

// Both sides of a tile are coalesced: reads go along columns, writes along rows.
template <class T>
struct TransposeTile {
  using Element = T;
  Transposition t;
  const T* x;
  T* y;
  __host__ __device__ Ends Enter(int64_t batch) const { return t.rest.At(batch); }
  __host__ __device__ T Read(const Ends& at, int64_t row, int64_t column) const {
    return x[at.from + row * t.row_from + column];
  }
  __host__ __device__ void Write(const Ends& at, int64_t row, int64_t column, T value) const {
    y[at.to + column * t.column_to + row] = value;
  }
};

template <class T>
struct FillEach {
  T value;
  T* y;
  __host__ __device__ void operator()(int64_t i) const { y[i] = value; }
};

// f.template operator()<T>() for an unsigned integer as wide as the type.
template <class F>
void WithBits(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    default: return f.template operator()<uint64_t>();
  }
}

// Over all elements of `part`, in the order in which `order` (of the same rank) lies.
// Threads are numbered as the output lies, so that neighbouring threads write neighbouring elements.
Walk WalkOver(const Shape& part, const TensorType& order, const Strides& from, const Strides& to) {
  Walk walk;
  for (int i = 0; i < part.rank(); ++i) {
    const int axis = order.layout.is_plain() ? i : order.layout.order[static_cast<size_t>(i)];
    walk.Add(part[axis], from[axis], to[axis]);
  }
  return walk;
}

std::string RefuseBlocks(const KernelQuery& query) {
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.layout.block_count != 0) return StrCat("it works on tensors without blocks, not ", type.ToString());
    }
  }
  return {};
}

// Walks, each from an input to an output.
class CopyKernel final : public BoundKernel {
 public:
  struct Part {
    size_t input = 0;
    size_t output = 0;
    Walk walk;
  };
  CopyKernel(int64_t width, std::vector<Part> parts) : width_(width), parts_(std::move(parts)) {}

  void Run() override {
    WithBits(width_, [&]<class T>() {
      for (const Part& part : parts_) Copy(part.walk, in<T>(part.input), out<T>(part.output));
    });
  }

 private:
  template <class T>
  void Copy(const Walk& walk, const T* x, T* y) {
    const std::optional<Transposition> t = TranspositionOf(walk);
    if (!t) return cuda::ForEach(stream(), walk.count, CopyEach<T>{walk, x, y});
    cuda::ForEachTile(stream(), {t->rest.count, t->rows, t->columns}, TransposeTile<T>{*t, x, y});
  }

  int64_t width_;
  std::vector<Part> parts_;
};

std::unique_ptr<Kernel> MakeCopy(const KernelQuery& query, std::vector<CopyKernel::Part> parts) {
  return std::make_unique<CopyKernel>(BytesOf(query.inputs[0].dtype), std::move(parts));
}

// A repeated axis has a stride of 0.
std::unique_ptr<Kernel> MakeExpand(const KernelQuery& query) {
  const TensorType& y = query.outputs[0];
  const Shape& x = query.inputs[0].shape;
  Strides from = StridesOf(query.inputs[0]);
  for (int axis = 0; axis < Shape::kMaxRank; ++axis) {
    if (axis >= x.rank() || x[axis] == 1) from.of[axis] = 0;
  }
  return MakeCopy(query, {{0, 0, WalkOver(y.shape, y, from, StridesOf(y))}});
}

std::unique_ptr<Kernel> MakeTranspose(const KernelQuery& query) {
  const TensorType& y = query.outputs[0];
  const Strides x = StridesOf(query.inputs[0]);
  const Ints& perm = query.node.attributes.Get<Ints>("perm");
  Strides from;
  for (size_t i = 0; i < perm.size(); ++i) from.of[i] = x[static_cast<int>(perm[i])];
  return MakeCopy(query, {{0, 0, WalkOver(y.shape, y, from, StridesOf(y))}});
}

// The same element under two layouts: only the strides differ.
std::unique_ptr<Kernel> MakeReorder(const KernelQuery& query) {
  const TensorType& y = query.outputs[0];
  return MakeCopy(query, {{0, 0, WalkOver(y.shape, y, StridesOf(query.inputs[0]), StridesOf(y))}});
}

// A flipped axis is walked from its end with a negative stride.
std::unique_ptr<Kernel> MakeFlip(const KernelQuery& query) {
  const TensorType& y = query.outputs[0];
  Strides from = StridesOf(query.inputs[0]);
  int64_t start = 0;
  for (int axis = 0; axis < y.shape.rank(); ++axis) {
    if (std::ranges::find(query.node.attributes.Get<Ints>("axes"), axis) ==
        query.node.attributes.Get<Ints>("axes").end())
      continue;
    int64_t& stride = from.of[axis];
    start += (y.shape[axis] - 1) * stride;
    stride = -stride;
  }
  Walk walk = WalkOver(y.shape, y, from, StridesOf(y));
  walk.from_start = start;
  return MakeCopy(query, {{0, 0, walk}});
}

// concat: its inputs are the parts; slice: its outputs are.
std::unique_ptr<Kernel> MakeParts(const KernelQuery& query) {
  const bool is_concat = query.node.op->name == "concat";
  const std::span<const TensorType> parts = is_concat ? query.inputs : query.outputs;
  const TensorType& whole = is_concat ? query.outputs[0] : query.inputs[0];
  const int axis = CanonicalAxis(query.node.attributes.Int("axis"), whole.shape, "axis");
  const Strides strides = StridesOf(whole);
  std::vector<CopyKernel::Part> copies;
  int64_t start = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Strides of_part = StridesOf(parts[i]);
    Walk walk = is_concat ? WalkOver(parts[i].shape, whole, of_part, strides)
                          : WalkOver(parts[i].shape, parts[i], strides, of_part);
    (is_concat ? walk.to_start : walk.from_start) = start * strides[axis];
    start += parts[i].shape[axis];
    if (walk.count == 0) continue;
    copies.push_back(is_concat ? CopyKernel::Part{i, 0, walk} : CopyKernel::Part{0, i, walk});
  }
  return MakeCopy(query, std::move(copies));
}

class FullKernel final : public BoundKernel {
 public:
  // The value is converted once on the host, as a cast would.
  FullKernel(const TensorType& type, double value) : count_(type.shape.Count()), width_(BytesOf(type.dtype)) {
    CopyTensor(Tensor({DType::kFloat64, Shape{}, {}}, &value), Tensor({type.dtype, Shape{}, {}}, &bits_));
  }
  void Run() override {
    WithBits(width_, [&]<class T>() {
      T value;  // the first bytes of bits_
      std::memcpy(&value, &bits_, sizeof(T));
      cuda::ForEach(stream(), count_, FillEach<T>{value, out<T>(0)});
    });
  }

 private:
  int64_t count_;
  int64_t width_;
  uint64_t bits_ = 0;
};

// The index along an axis.
struct PositionEach {
  int64_t size;   // of the axis
  int64_t inner;  // elements of the axes after it
  float* y;
  __host__ __device__ void operator()(int64_t i) const { y[i] = static_cast<float>(i / inner % size); }
};

class PositionsKernel final : public BoundKernel {
 public:
  PositionsKernel(const Shape& shape, int axis)
      : count_(shape.Count()), each_{shape[axis], shape.Count(axis + 1, shape.rank()), nullptr} {}
  void Run() override {
    PositionEach each = each_;
    each.y = out<float>(0);
    cuda::ForEach(stream(), count_, each);
  }

 private:
  int64_t count_;
  PositionEach each_;
};

KernelDef CopyRow(const char* op, decltype(KernelDef::propose) propose, decltype(KernelDef::make) make) {
  return {
      .name = "moka", .op = op, .device = DeviceKind::kCuda, .refuse = RefuseBlocks, .propose = propose, .make = make};
}

// Conversions, element by element; any layout, the same on both sides -------------------------------------------------

template <class To, class From>
__host__ __device__ To Convert(From value) {
  if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    // Out of range saturates and NaN gives 0: the plain conversion would be undefined.
    constexpr auto kLow = static_cast<double>(std::numeric_limits<To>::min());
    constexpr auto kHigh = static_cast<double>(std::numeric_limits<To>::max());
    const auto wide = static_cast<double>(cuda::ToWide(value));
    if (!(wide > kLow)) return wide <= kLow ? std::numeric_limits<To>::min() : To{0};
    return wide >= kHigh ? std::numeric_limits<To>::max() : static_cast<To>(wide);
  } else if constexpr (std::is_integral_v<To> || std::is_same_v<To, double>) {
    return static_cast<To>(value);
  } else {
    return cuda::Narrow<To>(static_cast<float>(value));
  }
}

template <class From, class To>
struct CastEach {
  const From* x;
  To* y;
  __host__ __device__ void operator()(int64_t i) const { y[i] = Convert<To>(x[i]); }
};

// A launch for each pair of types. Padding is converted too, since zero stays zero.
class CastKernel final : public BoundKernel {
 public:
  explicit CastKernel(const KernelQuery& query)
      : from_(query.inputs[0].dtype), to_(query.outputs[0].dtype), count_(query.inputs[0].StoredCount()) {}

  void Run() override {
    cuda::WithType(from_, [&]<class From>() {
      cuda::WithType(to_, [&]<class To>() {
        cuda::ForEach(stream(), count_, CastEach<From, To>{in<From>(0), out<To>(0)});
      });
    });
  }

 private:
  DType from_;
  DType to_;
  int64_t count_;
};

}  // namespace

KernelDef CudaConcat() { return CopyRow("concat", ProposeFirstLayout, MakeParts); }
KernelDef CudaExpand() { return CopyRow("expand", nullptr, MakeExpand); }
KernelDef CudaFlip() { return CopyRow("flip", ProposeFirstLayout, MakeFlip); }
KernelDef CudaFull() {
  return CopyRow("full", nullptr, [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
    return std::make_unique<FullKernel>(query.outputs[0], query.node.attributes.Float("value"));
  });
}
KernelDef CudaPositions() {
  return {.name = "moka",
          .op = "positions",
          .device = DeviceKind::kCuda,
          .refuse = RefuseUnlessPlain,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            const Shape& shape = query.outputs[0].shape;
            const int64_t axis = query.node.attributes.Int("axis");
            return std::make_unique<PositionsKernel>(shape, static_cast<int>(axis < 0 ? axis + shape.rank() : axis));
          }};
}
KernelDef CudaReorder() { return CopyRow("reorder", nullptr, MakeReorder); }
KernelDef CudaSlice() { return CopyRow("slice", ProposeFirstLayout, MakeParts); }
KernelDef CudaTranspose() { return CopyRow("transpose", nullptr, MakeTranspose); }

KernelDef CudaCast() {
  return {
      .name = "moka",
      .op = "cast",
      .device = DeviceKind::kCuda,
      .refuse = RefuseUnlessSameLayout,
      .propose = ProposeFirstLayout,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<CastKernel>(query); }};
}

}  // namespace moka
