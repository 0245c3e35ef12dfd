// Element types inside kernels: half types are stored in 16 bits and computed in float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/error.h"
#include "core/types.h"

namespace moka::cuda {

using Half = __half;
using BFloat16 = __nv_bfloat16;

// The type a storage type is computed in.
template <class T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <class T>
using Wide = typename WideOf<T>::type;

template <class T>
__host__ __device__ Wide<T> ToWide(T value) {
  return static_cast<Wide<T>>(value);
}
template <class T>
__host__ __device__ T Narrow(Wide<T> value) {
  return static_cast<T>(value);
}

// f.template operator()<T>() for the C++ type of a floating dtype. Requires: one.
template <class F>
auto WithFloat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32: return f.template operator()<float>();
    case DType::kFloat64: return f.template operator()<double>();
    case DType::kFloat16: return f.template operator()<Half>();
    case DType::kBFloat16: return f.template operator()<BFloat16>();
    default: break;
  }
  throw Error(ErrorKind::kInternal, "WithFloat: a floating type");
}

// The same for every dtype.
template <class F>
auto WithType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kInt64: return f.template operator()<int64_t>();
    case DType::kInt32: return f.template operator()<int32_t>();
    case DType::kUInt8: return f.template operator()<uint8_t>();
    case DType::kInt8: return f.template operator()<int8_t>();
    default: return WithFloat(dtype, f);
  }
}

}  // namespace moka::cuda
