// How elements lie in memory for the elementwise kernels: the dimensions of a (possibly blocked) layout, slowest first,
// with a stride for every operand, and neighbouring dimensions joined where all operands allow it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/types.h"

namespace moka::tile {

// An operand as the walk sees it.
struct WalkOperand {
  Shape shape;               // equal rank with dimensions equal or 1, or rank 0
  bool is_dense = false;     // lies exactly like the walk itself (same shape and layout, padding included)
  bool is_unpadded = false;  // strides of the shape as it is; otherwise blocked dimensions count as rounded up
  std::optional<Layout> repacked = {};  // lies in this layout, at the walk's shape. Requires: CanRepack
};

struct Walk {
  std::vector<int64_t> extents;               // slowest first, none of them 1
  std::vector<std::vector<int64_t>> strides;  // strides[operand][dim] in elements

  int dims() const { return static_cast<int>(extents.size()); }
  int64_t Count() const;
  // Product of the last `row_dims` extents.
  int64_t RowLength(int row_dims) const;
};

// Returns the walk over a tensor of this shape in the order of its memory, with every operand's strides. Extents of 1
// are left out.
Walk MakeWalk(const Layout& layout, const Shape& shape, std::span<const WalkOperand> operands);

// Whether a walk over one layout can step through another: equal padding, and no block of one cuts a block of the
// other.
bool CanRepack(const Layout& from, const Layout& to, const Shape& shape);

// Dimensions of `shape`, rounded up to the layout's blocks where they are not 1.
Shape PaddedLike(const Shape& shape, const Layout& layout);
// Whether a layout stores elements beyond the shape.
bool HasPadding(const Layout& layout, const Shape& shape);
// Sets the padding of a tensor to zero. Allocates nothing.
void ZeroPadding(const Layout& layout, const Shape& shape, int64_t element_bytes, void* data);

}  // namespace moka::tile
