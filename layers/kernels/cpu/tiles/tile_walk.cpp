// Takes the walk's layout apart into the dimensions of its memory, blocks included, gives every operand a stride along
// each, and joins neighbours along which all operands step as one. Padding is walked like all else and zeroed after.
#include "layers/kernels/cpu/tiles/tile_walk.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace moka::tile {
namespace {

// One dimension in memory: `extent` steps of `step` along a logical axis.
struct MemoryDim {
  int axis = 0;
  int64_t extent = 0;
  int64_t step = 1;
};
constexpr size_t kMaxMemoryDims = Shape::kMaxRank + Layout::kMaxBlocks;
struct MemoryDims {
  std::array<MemoryDim, kMaxMemoryDims> dims;
  size_t count = 0;
};

// aBcd16b of [N,C,H,W] is the five dimensions N, C/16, H, W and 16, of which the second steps 16 channels and the last
// one.
MemoryDims DimsOf(const Layout& layout, const Shape& shape) {
  MemoryDims memory;
  const Shape padded = layout.Padded(shape);
  std::array<int64_t, Shape::kMaxRank> inside{};
  for (int i = 0; i < shape.rank(); ++i) {
    const int axis = layout.is_plain() ? i : int{layout.order[static_cast<size_t>(i)]};
    inside[static_cast<size_t>(axis)] = layout.BlockOf(axis);
    memory.dims[memory.count++] = {axis, padded[axis] / layout.BlockOf(axis), layout.BlockOf(axis)};
  }
  for (int b = 0; b < layout.block_count; ++b) {
    const auto axis = int{layout.blocks[static_cast<size_t>(b)].axis};
    const int64_t size = layout.blocks[static_cast<size_t>(b)].size;
    int64_t& step = inside[static_cast<size_t>(axis)];
    step /= size;
    memory.dims[memory.count++] = {axis, size, step};
  }
  return memory;
}

// The stride in `other`'s memory of a step of one dimension of a walk; none if the step is not the same everywhere.
std::optional<int64_t> StrideIn(const MemoryDims& other, const MemoryDim& dim) {
  int64_t stride = 1;
  for (size_t d = other.count; d-- > 0;) {
    const MemoryDim& there = other.dims[d];
    const bool covers = there.axis == dim.axis && there.step <= dim.step && dim.step % there.step == 0 &&
                        dim.step < there.step * there.extent;
    if (covers) {
      const int64_t steps = dim.step / there.step;
      if (steps * dim.extent > there.extent) return {};
      return stride * steps;
    }
    stride *= there.extent;
  }
  return {};
}

// Row-major strides by axis, 0 along axes of 1.
std::array<int64_t, Shape::kMaxRank> RepeatingStrides(const Shape& own, const Shape& dims) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  for (int axis = own.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = own[axis] == 1 ? 0 : stride;
    stride *= dims[axis];
  }
  return strides;
}

// Two neighbouring dimensions are one if the outer stride of every operand is the inner one times its extent.
bool Joins(const Walk& walk, const std::vector<int64_t>& next_strides, int64_t next_extent) {
  for (size_t o = 0; o < walk.strides.size(); ++o) {
    if (walk.strides[o].back() != next_strides[o] * next_extent) return false;
  }
  return true;
}

// Zeroes the elements at or beyond `size` along `axis`, dimensions counting from `first`; the last dimension in runs.
void ZeroFrom(const MemoryDims& memory, const std::array<int64_t, kMaxMemoryDims>& first, int axis, int64_t size,
              int64_t element_bytes, std::byte* data) {
  const size_t last = memory.count - 1;
  const MemoryDim& run = memory.dims[last];
  std::array<int64_t, kMaxMemoryDims> at = first;
  for (bool more = true; more;) {
    int64_t offset = 0;
    int64_t logical = 0;
    for (size_t d = 0; d < last; ++d) {
      offset = offset * memory.dims[d].extent + at[d];
      if (memory.dims[d].axis == axis) logical += at[d] * memory.dims[d].step;
    }
    int64_t begin = logical >= size ? 0 : run.extent;
    if (run.axis == axis) begin = std::clamp<int64_t>(size - logical, 0, run.extent);
    std::memset(data + (offset * run.extent + begin) * element_bytes, 0,
                static_cast<size_t>((run.extent - begin) * element_bytes));
    more = false;
    for (size_t d = last; d-- > 0 && !more;) {
      more = ++at[d] < memory.dims[d].extent;
      if (!more) at[d] = first[d];
    }
  }
}

}  // namespace

int64_t Walk::Count() const { return RowLength(dims()); }

int64_t Walk::RowLength(int row_dims) const {
  int64_t length = 1;
  for (int d = dims() - row_dims; d < dims(); ++d) length *= extents[static_cast<size_t>(d)];
  return length;
}

Shape PaddedLike(const Shape& shape, const Layout& layout) {
  Shape padded = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != 1) padded = padded.With(axis, RoundUp(shape[axis], layout.BlockOf(axis)).value());
  }
  return padded;
}

bool CanRepack(const Layout& from, const Layout& to, const Shape& shape) {
  if (from.Padded(shape) != to.Padded(shape)) return false;
  const MemoryDims walk = DimsOf(from, shape);
  const MemoryDims other = DimsOf(to, shape);
  return std::all_of(walk.dims.begin(), walk.dims.begin() + static_cast<std::ptrdiff_t>(walk.count),
                     [&](const MemoryDim& dim) { return dim.extent == 1 || StrideIn(other, dim).has_value(); });
}

bool HasPadding(const Layout& layout, const Shape& shape) { return layout.Padded(shape) != shape; }

// Dimensions of memory are taken from the slowest to the fastest and joined with the one before where every operand
// allows it, so that rows are long.
Walk MakeWalk(const Layout& layout, const Shape& shape, std::span<const WalkOperand> operands) {
  const MemoryDims memory = DimsOf(layout, shape);
  std::vector<std::array<int64_t, Shape::kMaxRank>> by_axis;
  for (const WalkOperand& operand : operands) {
    by_axis.push_back(
        RepeatingStrides(operand.shape, operand.is_unpadded ? operand.shape : PaddedLike(operand.shape, layout)));
  }
  std::array<int64_t, kMaxMemoryDims> dense{};
  int64_t stride = 1;
  for (size_t d = memory.count; d-- > 0;) {
    dense[d] = stride;
    stride *= memory.dims[d].extent;
  }
  Walk walk;
  walk.strides.resize(operands.size());
  std::vector<int64_t> strides(operands.size());
  for (size_t d = 0; d < memory.count; ++d) {
    const MemoryDim& dim = memory.dims[d];
    if (dim.extent == 1) continue;
    for (size_t o = 0; o < operands.size(); ++o) {
      if (operands[o].repacked) {
        strides[o] = StrideIn(DimsOf(*operands[o].repacked, shape), dim).value();
      } else {
        strides[o] = operands[o].is_dense ? dense[d] : by_axis[o][static_cast<size_t>(dim.axis)] * dim.step;
      }
    }
    if (!walk.extents.empty() && Joins(walk, strides, dim.extent)) {
      walk.extents.back() *= dim.extent;
      for (size_t o = 0; o < operands.size(); ++o) walk.strides[o].back() = strides[o];
      continue;
    }
    walk.extents.push_back(dim.extent);
    for (size_t o = 0; o < operands.size(); ++o) walk.strides[o].push_back(strides[o]);
  }
  return walk;
}

// A walk writes whole blocks. What lies in the padding must be zero, as other kernels sum over it without a mask.
void ZeroPadding(const Layout& layout, const Shape& shape, int64_t element_bytes, void* data) {
  if (!HasPadding(layout, shape)) return;
  const MemoryDims memory = DimsOf(layout, shape);
  for (int padded_axis = 0; padded_axis < shape.rank(); ++padded_axis) {
    const int64_t block = layout.BlockOf(padded_axis);
    if (shape[padded_axis] % block == 0) continue;
    // Only the last block of the axis has padding: its outer dimension starts there.
    std::array<int64_t, kMaxMemoryDims> first{};
    for (size_t d = 0; d < memory.count; ++d) {
      const bool is_outer = memory.dims[d].axis == padded_axis && memory.dims[d].step == block;
      if (is_outer) first[d] = memory.dims[d].extent - 1;
    }
    ZeroFrom(memory, first, padded_axis, shape[padded_axis], element_bytes, static_cast<std::byte*>(data));
  }
}

}  // namespace moka::tile
