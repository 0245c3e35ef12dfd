// Vectors of floats as wide as the registers of x86's instruction sets. What is measured by wider ones than a
// function's target has is spilled to the stack at every step (GCC 12: a thirteenth of the arithmetic).
#pragma once

namespace moka {

using Vector16 = float __attribute__((vector_size(16)));  // every x86-64
using Vector32 = float __attribute__((vector_size(32)));  // AVX2
using Vector64 = float __attribute__((vector_size(64)));  // AVX-512

}  // namespace moka
