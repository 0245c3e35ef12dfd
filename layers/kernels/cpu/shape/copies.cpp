// Data movement: concat and slice by contiguous runs, expand, transpose and full. Bound by memory bandwidth.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

constexpr int64_t kGrainBytes = 1 << 15;

// concat and slice
// -----------------------------------------------------------------------------------------------------

// Copies `rows` runs of `run` bytes between two strided places.
void CopyRows(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t run, int64_t rows) {
  ParallelFor(rows * run, kGrainBytes, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t row = begin / run;
      const int64_t offset = begin % run;
      const int64_t count = std::min(run - offset, end - begin);
      std::memcpy(to + row * to_stride + offset, from + row * from_stride + offset, static_cast<size_t>(count));
      begin += count;
    }
  });
}

// How a tensor's memory splits along an axis: `rows` runs of `run` bytes, each run holding all of the axis.
struct Runs {
  int64_t rows = 1;
  int64_t run = 1;
};

// Blocks of the axis belong to the run, as RefuseBrokenBlocks makes parts end at the borders of blocks.
Runs SplitRuns(const TensorType& type, int axis) {
  const Shape padded = type.layout.Padded(type.shape);
  Runs runs{1, BytesOf(type.dtype)};
  bool before = true;
  for (int i = 0; i < type.shape.rank(); ++i) {
    const int a = type.layout.is_plain() ? i : type.layout.order[static_cast<size_t>(i)];
    before = before && a != axis;
    (before ? runs.rows : runs.run) *= padded[a] / type.layout.BlockOf(a);
  }
  for (int b = 0; b < type.layout.block_count; ++b) runs.run *= type.layout.blocks[static_cast<size_t>(b)].size;
  return runs;
}

// The parts of a concat are its inputs, those of a slice its outputs; the other side is the whole.
bool IsConcat(const KernelQuery& query) { return query.node.op->name == "concat"; }
std::span<const TensorType> PartsOf(const KernelQuery& query) { return IsConcat(query) ? query.inputs : query.outputs; }
const TensorType& WholeOf(const KernelQuery& query) { return IsConcat(query) ? query.outputs[0] : query.inputs[0]; }
int AxisOf(const KernelQuery& query) {
  return CanonicalAxis(query.node.attributes.Int("axis"), WholeOf(query).shape, "axis");
}

// "" if the parts fill whole blocks (the last may be padded as the whole is).
std::string RefuseBrokenBlocks(const KernelQuery& query, const Layout& layout) {
  const int64_t block = layout.BlockOf(AxisOf(query));
  const auto parts = PartsOf(query);
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const int64_t size = parts[i].shape[AxisOf(query)];
    if (size % block != 0) return StrCat("part ", i, " has ", size, " elements, not a multiple of the block ", block);
  }
  return {};
}

std::string RefuseParts(const KernelQuery& query) {
  const Layout& layout = WholeOf(query).layout;
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.layout != layout) return StrCat("the layout of ", type.ToString(), " is not that of the others");
    }
  }
  return RefuseBrokenBlocks(query, layout);
}

std::optional<LayoutProposal> ProposeParts(const KernelQuery& query) {
  const Layout first = query.inputs[0].layout;
  const Layout layout = RefuseBrokenBlocks(query, first).empty() ? first : Layout{};
  return LayoutProposal{std::vector<Layout>(query.inputs.size(), layout),
                        std::vector<Layout>(query.outputs.size(), layout)};
}

// A concat is one strided copy an input: runs of everything behind the axis, side by side in the output's runs.
class PartsKernel final : public BoundKernel {
 public:
  explicit PartsKernel(const KernelQuery& query)
      : is_concat_(IsConcat(query)), whole_(SplitRuns(WholeOf(query), AxisOf(query))) {
    for (const TensorType& part : PartsOf(query)) parts_.push_back(SplitRuns(part, AxisOf(query)));
  }
  void Run() override {
    int64_t offset = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const int64_t run = parts_[i].run;
      if (is_concat_) {
        CopyRows(in<std::byte>(i), run, out<std::byte>(0) + offset, whole_.run, run, whole_.rows);
      } else {
        CopyRows(in<std::byte>(0) + offset, whole_.run, out<std::byte>(i), run, run, whole_.rows);
      }
      offset += run;
    }
  }

 private:
  bool is_concat_;
  Runs whole_;
  std::vector<Runs> parts_;
};

// expand and transpose
// -------------------------------------------------------------------------------------------------

// y's elements in order, each from an offset of x that is linear in y's index.
// expand repeats by strides of 0, transpose permutes strides. Axes that x walks as one are merged first, so that rows
// are as long as they can be. Elements are copied by width, whatever their type.
class StridedKernel final : public BoundKernel {
 public:
  StridedKernel(const Shape& y, std::span<const int64_t> strides, int64_t width) : width_(width) {
    dims_.push_back(1);
    strides_.push_back(0);
    for (int axis = 0; axis < y.rank(); ++axis) {
      const int64_t stride = strides[static_cast<size_t>(axis)];
      if (y[axis] == 1) continue;
      if (strides_.back() == stride * y[axis] && dims_.size() > 1) {  // two axes that walk x as one
        dims_.back() *= y[axis];
        strides_.back() = stride;
      } else {
        dims_.push_back(y[axis]);
        strides_.push_back(stride);
      }
    }
  }

  void Run() override {
    switch (width_) {
      case 1: return Copy<uint8_t>();
      case 2: return Copy<uint16_t>();
      case 4: return Copy<uint32_t>();
      default: return Copy<uint64_t>();
    }
  }

 private:
  template <class T>
  void Copy() const {
    const int64_t row = dims_.back();
    const int64_t stride = strides_.back();
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < dims_.size(); ++i) rows *= dims_[i];
    const T* x = in<T>(0);
    T* y = out<T>(0);
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(1, row * width_));
    ParallelFor(rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) CopyRow(x + SourceOf(r), stride, y + r * row, row);
    });
  }
  template <class T>
  static void CopyRow(const T* x, int64_t stride, T* y, int64_t count) {
    if (stride == 1) {
      std::copy_n(x, count, y);
    } else if (stride == 0) {
      std::fill_n(y, count, *x);
    } else {
      for (int64_t i = 0; i < count; ++i) y[i] = x[i * stride];
    }
  }
  // Offset in x of the first element of a row of y.
  int64_t SourceOf(int64_t row) const {
    int64_t offset = 0;
    for (size_t i = dims_.size() - 1; i-- > 0;) {
      offset += row % dims_[i] * strides_[i];
      row /= dims_[i];
    }
    return offset;
  }

  int64_t width_;
  Ints dims_;  // y's dimensions, those that walk x as one merged
  Ints strides_;
};

// Row-major strides of a shape.
std::array<int64_t, Shape::kMaxRank> StridesOf(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

std::unique_ptr<Kernel> MakeExpand(const KernelQuery& query) {
  const Shape& x = query.inputs[0].shape;
  auto strides = StridesOf(x);
  for (int axis = 0; axis < Shape::kMaxRank; ++axis) {
    if (axis >= x.rank() || x[axis] == 1) strides[static_cast<size_t>(axis)] = 0;
  }
  return std::make_unique<StridedKernel>(query.outputs[0].shape, strides, BytesOf(query.inputs[0].dtype));
}

std::unique_ptr<Kernel> MakeTranspose(const KernelQuery& query) {
  const auto x = StridesOf(query.inputs[0].shape);
  const Ints& perm = query.node.attributes.Get<Ints>("perm");
  Ints strides;
  for (const int64_t axis : perm) strides.push_back(x[static_cast<size_t>(axis)]);
  return std::make_unique<StridedKernel>(query.outputs[0].shape, strides, BytesOf(query.inputs[0].dtype));
}

// full
// -----------------------------------------------------------------------------------------------------------------

// Fills with the bytes of the first element, which CopyTensor makes once.
class FullKernel final : public BoundKernel {
 public:
  FullKernel(const TensorType& type, double value) : count_(type.shape.Count()), width_(BytesOf(type.dtype)) {
    CopyTensor(Tensor({DType::kFloat64, Shape{}, {}}, &value), Tensor({type.dtype, Shape{}, {}}, bits_.data()));
  }
  void Run() override {
    auto* y = out<std::byte>(0);
    ParallelFor(count_, kGrainBytes / width_, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) std::memcpy(y + i * width_, bits_.data(), static_cast<size_t>(width_));
    });
  }

 private:
  int64_t count_;
  int64_t width_;
  std::array<std::byte, 8> bits_{};
};

// Along the axis of `size` elements, each `inner` times.
class PositionsKernel final : public BoundKernel {
 public:
  PositionsKernel(const Shape& shape, int axis)
      : count_(shape.Count()), size_(shape[axis]), inner_(shape.Count(axis + 1, shape.rank())) {}
  void Run() override {
    auto* y = out<float>(0);
    for (int64_t i = 0; i < count_; ++i) y[i] = static_cast<float>(i / inner_ % size_);
  }

 private:
  int64_t count_;
  int64_t size_;
  int64_t inner_;
};

}  // namespace

KernelDef MokaConcat() {
  return {
      .name = "moka",
      .op = "concat",
      .refuse = RefuseParts,
      .propose = ProposeParts,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<PartsKernel>(query); }};
}

KernelDef MokaSlice() {
  return {
      .name = "moka",
      .op = "slice",
      .refuse = RefuseParts,
      .propose = ProposeParts,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<PartsKernel>(query); }};
}

KernelDef MokaExpand() { return {.name = "moka", .op = "expand", .refuse = RefuseUnlessPlain, .make = MakeExpand}; }

KernelDef MokaTranspose() {
  return {.name = "moka", .op = "transpose", .refuse = RefuseUnlessPlain, .make = MakeTranspose};
}

KernelDef MokaFull() {
  return {.name = "moka",
          .op = "full",
          .refuse = RefuseUnlessPlain,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<FullKernel>(query.outputs[0], query.node.attributes.Float("value"));
          }};
}

KernelDef MokaPositions() {
  return {.name = "moka",
          .op = "positions",
          .refuse = RefuseUnlessPlain,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            const Shape& shape = query.outputs[0].shape;
            const int64_t axis = query.node.attributes.Int("axis");
            return std::make_unique<PositionsKernel>(shape, static_cast<int>(axis < 0 ? axis + shape.rank() : axis));
          }};
}

}  // namespace moka
