// Plain enumerations the references are written with. Slow and obviously right.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "layers/ops/geometry.h"

namespace moka {

using Index = std::array<int64_t, Shape::kMaxRank>;

// Row-major offset of the first shape.rank() entries of an index.
inline int64_t RowMajor(const Shape& shape, const Index& index) {
  int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) offset = offset * shape[axis] + index[static_cast<size_t>(axis)];
  return offset;
}

// Calls f(index, offset) for each element in row-major order.
template <class F>
void VisitElements(const Shape& shape, F&& f) {
  const int64_t count = shape.Count();
  Index index{};
  for (int64_t offset = 0; offset < count; ++offset) {
    f(index, offset);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<size_t>(axis)] < shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
}

// The dimensions of a list as a shape.
inline Shape ShapeOf(const Ints& dims) { return Shape(std::span<const int64_t>(dims)); }

// Moves `index` (of y, [N,C,o..]) to x's element under kernel position k. False if that lies in the padding.
inline bool WindowElement(const Geometry& g, const Shape& x, const Index& y_index, const Index& k, Index& x_index) {
  for (int i = 0; i < g.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    const int64_t position = y_index[s + 2] * g.stride[s] - g.pad_begin[s] + k[s] * g.dilation[s];
    if (position < 0 || position >= x[i + 2]) return false;
    x_index[s + 2] = position;
  }
  return true;
}

// Calls f(x offset, y offset, position in the window) for every element of x [N,C,in..] under every window of
// y [N,C,out..]; positions run row-major, inside one window in order.
template <class F>
void VisitWindows(const Geometry& g, const Shape& x, const Shape& y, F&& f) {
  const Shape kernel = ShapeOf(g.kernel);
  VisitElements(y, [&](const Index& y_index, int64_t y_offset) {
    Index x_index = y_index;
    VisitElements(kernel, [&](const Index& k, int64_t position) {
      if (WindowElement(g, x, y_index, k, x_index)) f(RowMajor(x, x_index), y_offset, position);
    });
  });
}

// Calls f(x offset, w offset, y offset) for every product in y[n,k,o] = sum x[n,c,i] w[k,c,j]: convolution and both its
// gradients are sums over the same triples.
template <class F>
void VisitConvolution(const Geometry& g, int64_t groups, const Shape& x, const Shape& w, const Shape& y, F&& f) {
  const Shape kernel = w.With(0, 1);  // [1,C/g,k..]
  const int64_t outputs_per_group = w[0] / groups;
  VisitElements(y, [&](const Index& y_index, int64_t y_offset) {
    VisitElements(kernel, [&](const Index& kernel_index, int64_t) {
      Index w_index = kernel_index;
      w_index[0] = y_index[1];
      Index x_index{};
      x_index[0] = y_index[0];
      x_index[1] = y_index[1] / outputs_per_group * w[1] + w_index[1];
      const Index k = {w_index[2], w_index[3], w_index[4]};
      if (WindowElement(g, x, y_index, k, x_index)) f(RowMajor(x, x_index), RowMajor(w, w_index), y_offset);
    });
  });
}

// x seen as [outer, size, inner] around one axis.
struct AxisSplit {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
inline AxisSplit SplitAt(const Shape& shape, int axis) {
  return {shape.Count(0, axis), shape[axis], shape.Count(axis + 1, shape.rank())};
}

}  // namespace moka
