// ONNX's rules of the shapes of ops that only move values: for constants that are computed and for layers alike.
#pragma once

#include <optional>

#include "tools/exchange/import/node_attributes.h"

namespace moka {

// Errors of all: kConfig for what ONNX does not allow.

// 0 copies the dimension at its place (unless `zero_is_size`), one -1 is what remains.
Ints ReshapedDims(const Ints& dims, const Ints& wanted, bool zero_is_size);
Ints FlattenedDims(const Ints& dims, int64_t axis);
// Without axes all dimensions of 1 go.
Ints SqueezedDims(const Ints& dims, const std::optional<Ints>& axes);
Ints UnsqueezedDims(const Ints& dims, const Ints& axes);
// The attribute perm, or the axes turned round.
Ints PermOf(const NodeAttributes& attributes, size_t rank);
// The dimensions that Shape gives, from its attribute start to end.
Ints ShapeSlice(const Ints& dims, const NodeAttributes& attributes);
// The parts of an axis of `size`: the sizes given, or equal parts with the last one smaller.
Ints SplitSizes(int64_t size, const std::optional<Ints>& sizes, int64_t count);

// Rows of a tensor whose first `axes` axes are seen as one, by indices of as many numbers each ("GatherND").
Ints RowsAt(const Ints& dims, const Ints& index, int64_t axes);

struct SliceAxis {
  int64_t axis;
  int64_t begin;  // inside the axis, if count is not 0
  int64_t step;
  int64_t count;
};
std::vector<SliceAxis> SlicesOf(const Ints& dims, const Ints& begins, const Ints& ends, Ints axes, Ints steps);

}  // namespace moka
