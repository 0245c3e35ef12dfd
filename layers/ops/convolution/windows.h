// The windows of unpooling: window (i, j) of the small plane covers kernel[0] x kernel[1] pixels of the large plane
// from (i stride[0], j stride[1]) on, cut at its end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/op.h"

namespace moka {

struct UnpoolWindows {
  std::array<int64_t, 2> small{};
  std::array<int64_t, 2> large{};
  std::array<int64_t, 2> kernel{};
  std::array<int64_t, 2> stride{};
  bool mean = false;  // each window shares its value out

  UnpoolWindows(const Attributes& attributes, const Shape& small_shape, const Shape& large_shape)
      : mean(attributes.Bool("mean")) {
    for (int i = 0; i < 2; ++i) {
      const auto s = static_cast<size_t>(i);
      small[s] = small_shape[2 + i];
      large[s] = large_shape[2 + i];
      kernel[s] = attributes.Get<Ints>("kernel")[s];
      stride[s] = attributes.Get<Ints>("stride")[s];
    }
  }
  int64_t SmallPlane() const { return small[0] * small[1]; }
  int64_t LargePlane() const { return large[0] * large[1]; }
  // One past the last pixel of a window that begins at `start`.
  int64_t End(size_t axis, int64_t start) const { return std::min(start + kernel[axis], large[axis]); }

  // Calls f(pixel of the small plane, pixel of the large plane, weight) for all of one plane.
  template <class F>
  void Visit(F&& f) const {
    for (int64_t i = 0; i < small[0]; ++i) {
      for (int64_t j = 0; j < small[1]; ++j) {
        const int64_t top = i * stride[0];
        const int64_t left = j * stride[1];
        const int64_t bottom = End(0, top);
        const int64_t right = End(1, left);
        const double weight = mean ? 1 / static_cast<double>((bottom - top) * (right - left)) : 1;
        for (int64_t h = top; h < bottom; ++h) {
          for (int64_t w = left; w < right; ++w) f(i * small[1] + j, h * large[1] + w, weight);
        }
      }
    }
  }
};

}  // namespace moka
