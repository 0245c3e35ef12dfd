// Images [N,C,D,H,W] inside kernels, plain or with channels last, and the windows that slide over them. Missing
// spatial axes are of size 1.
#pragma once

#include <cstdint>

#include "graph/kernel.h"
#include "layers/kernels/cuda/divide.cuh"
#include "layers/ops/geometry.h"

namespace moka::cuda {

// An element's indices: image, channel, and the three spatial ones.
struct Place {
  int64_t n;
  int64_t c;
  int64_t at[3];
};

struct Planes {
  int64_t images = 1;
  int64_t channels = 1;
  int64_t size[3] = {1, 1, 1};
  bool is_last = false;  // channels lie last

  __host__ __device__ int64_t PlaneSize() const { return size[0] * size[1] * size[2]; }
  __host__ __device__ int64_t Count() const { return images * channels * PlaneSize(); }
  __host__ __device__ int64_t InPlane(const int64_t (&at)[3]) const {
    return (at[0] * size[1] + at[1]) * size[2] + at[2];
  }
  __host__ __device__ int64_t Offset(int64_t n, int64_t c, int64_t in_plane) const {
    return is_last ? (n * PlaneSize() + in_plane) * channels + c : (n * channels + c) * PlaneSize() + in_plane;
  }
  // The element at place i in memory.
  __host__ __device__ Place At(int64_t i) const {
    Place p;
    if (is_last) p.c = Divide(i, channels);
    for (int a = 2; a >= 0; --a) p.at[a] = Divide(i, size[a]);
    if (!is_last) p.c = Divide(i, channels);
    p.n = i;
    return p;
  }
};

// Whether V neighbours from a multiple of V on are channels of one position.
inline bool HasPacks(const Planes& planes, int pack) { return planes.is_last && planes.channels % pack == 0; }

// Requires: rank 2 to 5, plain or channels last.
inline Planes PlanesOf(const TensorType& type) {
  Planes planes{.images = type.shape[0], .channels = type.shape[1]};
  const int rank = type.shape.rank();
  for (int i = 2; i < rank; ++i) planes.size[3 - rank + i] = type.shape[i];
  planes.is_last = !type.layout.is_plain() || planes.PlaneSize() == 1;
  return planes;
}

// Indices [begin, end).
struct Span {
  int64_t begin;
  int64_t end;
};

// One axis of a sliding window: window o covers [o*stride - pad, o*stride - pad + kernel).
struct WindowAxis {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t pad = 0;

  __host__ __device__ int64_t Start(int64_t o) const { return o * stride - pad; }
  // Returns the part of window o that is inside an axis of `size`.
  __host__ __device__ Span Inside(int64_t o, int64_t size) const {
    const int64_t start = Start(o);
    return {start > 0 ? start : 0, start + kernel < size ? start + kernel : size};
  }
  // The windows, of `count`, that hold element `at`.
  __host__ __device__ Span Holding(int64_t at, int64_t count) const {
    const int64_t first = at + pad - kernel + 1;  // the least start, plus the pad
    int64_t begin = first > 0 ? first + stride - 1 : 0;
    int64_t last = at + pad;
    Divide(begin, stride);
    Divide(last, stride);
    return {begin, last + 1 < count ? last + 1 : count};
  }
};

struct Windows {
  WindowAxis axis[3];

  // Calls f(place in x's plane, position inside the window) for the elements of window `o`, in order.
  template <class F>
  __host__ __device__ void Visit(const Planes& x, const int64_t (&o)[3], F&& f) const {
    const Span d = axis[0].Inside(o[0], x.size[0]);
    const Span h = axis[1].Inside(o[1], x.size[1]);
    const Span w = axis[2].Inside(o[2], x.size[2]);
    for (int64_t i = d.begin; i < d.end; ++i) {
      for (int64_t j = h.begin; j < h.end; ++j) {
        const int64_t row = (i - axis[0].Start(o[0])) * axis[1].kernel + j - axis[1].Start(o[1]);
        for (int64_t k = w.begin; k < w.end; ++k) {
          f((i * x.size[1] + j) * x.size[2] + k, row * axis[2].kernel + k - axis[2].Start(o[2]));
        }
      }
    }
  }
  // Calls f(o, place in y's plane, position inside the window) for each window that holds the element `at`, in order.
  template <class F>
  __host__ __device__ void VisitHolding(const Planes& y, const int64_t (&at)[3], F&& f) const {
    const Span d = axis[0].Holding(at[0], y.size[0]);
    const Span h = axis[1].Holding(at[1], y.size[1]);
    const Span w = axis[2].Holding(at[2], y.size[2]);
    for (int64_t i = d.begin; i < d.end; ++i) {
      for (int64_t j = h.begin; j < h.end; ++j) {
        const int64_t row = (at[0] - axis[0].Start(i)) * axis[1].kernel + at[1] - axis[1].Start(j);
        for (int64_t k = w.begin; k < w.end; ++k) {
          const int64_t o[3] = {i, j, k};
          f(o, y.InPlane(o), row * axis[2].kernel + at[2] - axis[2].Start(k));
        }
      }
    }
  }
};

inline Windows WindowsOf(const Geometry& g) {
  Windows windows;
  for (int i = 0; i < g.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    windows.axis[3 - g.rank() + i] = {g.kernel[s], g.stride[s], g.pad_begin[s]};
  }
  return windows;
}

}  // namespace moka::cuda
