// Stretches of half values to floats and back, by the widest registers that the processor has. Rounding is half.h's: to
// nearest, ties to even; a NaN stays a NaN (of float16 its payload may differ between processors).
#pragma once

#include <cstdint>

#include "core/types.h"

namespace moka {

// to[i] = from[i], `count` of them. Requires: half is kFloat16 or kBFloat16.
void Widen(DType half, const void* from, int64_t count, float* to);
void Narrow(DType half, const float* from, int64_t count, void* to);

}  // namespace moka
