// The arithmetic over blocks of 16 images with AVX-512 registers; on other architectures the table is empty.
#include "layers/kernels/cpu/batch_lanes/tile_body.h"
#include "layers/kernels/cpu/batch_lanes/winograd_body.h"

namespace moka::batch_lanes {

#if defined(__AVX2__) && defined(__FMA__) && defined(__AVX512F__)
const Functions& Avx512Functions() { return kFunctionsOf<winograd::Lanes16>; }
const Transforms& Avx512Transforms() { return kTransformsOf<winograd::Lanes16>; }
#else
const Functions& Avx512Functions() {
  static constexpr Functions kNone;
  return kNone;
}
const Transforms& Avx512Transforms() {
  static constexpr Transforms kNone;
  return kNone;
}
#endif

}  // namespace moka::batch_lanes
