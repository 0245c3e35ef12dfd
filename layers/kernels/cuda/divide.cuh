// Division of places in memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace moka::cuda {

// i becomes the quotient, the remainder is returned. In 32 bits where they are enough: a division of 64 takes a GPU
// several times as long.
__host__ __device__ inline int64_t Divide(int64_t& i, int64_t by) {
  if (by == 1) return 0;
  if (static_cast<uint64_t>(i | by) >> 32U == 0) {
    const auto whole = static_cast<uint32_t>(i);
    const uint32_t quotient = whole / static_cast<uint32_t>(by);
    i = quotient;
    return whole - quotient * static_cast<uint32_t>(by);
  }
  const int64_t whole = i;
  i = whole / by;
  return whole - i * by;
}

}  // namespace moka::cuda
