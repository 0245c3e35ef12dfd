// Elements of tensors of any type as those of a tile, T, and tiles as half values.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "core/device/tensor.h"
#include "core/half.h"
#include "core/half_spans.h"
#include "layers/kernels/cpu/tiles/tile_ops.h"

namespace moka::tile {

// Elements of a tensor of any dtype as T.
template <class T, class From>
void ConvertFrom(const void* data, int64_t at, int64_t n, T* to) {
  const From* from = static_cast<const From*>(data) + at;
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

template <class T>
void Convert(const Tensor& tensor, int64_t at, int64_t n, T* to) {
  switch (tensor.type().dtype) {
    case DType::kFloat32: return ConvertFrom<T, float>(tensor.raw(), at, n, to);
    case DType::kFloat64: return ConvertFrom<T, double>(tensor.raw(), at, n, to);
    case DType::kInt64: return ConvertFrom<T, int64_t>(tensor.raw(), at, n, to);
    case DType::kInt32: return ConvertFrom<T, int32_t>(tensor.raw(), at, n, to);
    case DType::kUInt8: return ConvertFrom<T, uint8_t>(tensor.raw(), at, n, to);
    case DType::kInt8: return ConvertFrom<T, int8_t>(tensor.raw(), at, n, to);
    case DType::kFloat16:
    case DType::kBFloat16: break;
  }
  const auto* halves = static_cast<const uint16_t*>(tensor.raw()) + at;
  if constexpr (std::is_same_v<T, float>) {
    Widen(tensor.type().dtype, halves, n, to);
  } else {
    const bool is_brain = tensor.type().dtype == DType::kBFloat16;
    for (int64_t i = 0; i < n; ++i) to[i] = is_brain ? FloatOfBFloat16(halves[i]) : FloatOfHalf(halves[i]);
  }
}

// Rounds a tile to half values.
template <class T>
void NarrowTile(DType half, const T* from, int64_t n, uint16_t* to) {
  if constexpr (std::is_same_v<T, float>) {
    Narrow(half, from, n, to);
  } else {
    std::array<float, kTileLength> floats;
    for (int64_t i = 0; i < n; ++i) floats[static_cast<size_t>(i)] = static_cast<float>(from[i]);
    Narrow(half, floats.data(), n, to);
  }
}

}  // namespace moka::tile
