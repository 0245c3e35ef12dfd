// Rounding to 8 bits as oneDNN rounds: to the nearest integer, halves to the even one, saturated.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "core/types.h"

namespace moka {

inline bool IsInt8(DType dtype) { return dtype == DType::kUInt8 || dtype == DType::kInt8; }

inline double RoundTo(DType dtype, double value) {
  if (!IsInt8(dtype)) return value;
  const double low = dtype == DType::kUInt8 ? 0 : -128;
  return std::clamp(std::nearbyint(value), low, low + 255);
}

// Errors: kConfig unless the dtype is uint8 or int8.
inline void CheckInt8(std::string_view op, std::string_view name, const TensorType& type) {
  if (IsInt8(type.dtype)) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", name, " must be uint8 or int8, found ", type.ToString()));
}

}  // namespace moka
