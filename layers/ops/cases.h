// Short spellings for the test cases of ops.
#pragma once

#include <initializer_list>

#include "graph/op.h"

namespace moka {

inline TensorType Float32(std::initializer_list<int64_t> dims) { return {DType::kFloat32, Shape(dims), {}}; }

// Attributes of a convolution case.
inline Attributes ConvolutionCase(Ints stride, Ints pad_begin, Ints pad_end, Ints dilation, int64_t groups = 1) {
  return {{"stride", std::move(stride)},
          {"pad_begin", std::move(pad_begin)},
          {"pad_end", std::move(pad_end)},
          {"dilation", std::move(dilation)},
          {"groups", groups}};
}

// Attributes of a pooling case.
inline Attributes PoolCase(Ints kernel, Ints stride, Ints pad_begin, Ints pad_end) {
  return {{"kernel", std::move(kernel)},
          {"stride", std::move(stride)},
          {"pad_begin", std::move(pad_begin)},
          {"pad_end", std::move(pad_end)}};
}

// The attributes of both; later ones win.
inline Attributes With(Attributes attributes, const Attributes& more) {
  for (const auto& [name, value] : more.values()) attributes.Set(name, value);
  return attributes;
}

}  // namespace moka
