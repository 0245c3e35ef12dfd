// The arithmetic over blocks of 8 images with AVX2 registers; on other architectures the table is empty.
#include "layers/kernels/cpu/batch_lanes/tile_body.h"
#include "layers/kernels/cpu/batch_lanes/winograd_body.h"

namespace moka::batch_lanes {

#if defined(__AVX2__) && defined(__FMA__)
const Functions& Avx2Functions() { return kFunctionsOf<winograd::Lanes8>; }
const Transforms& Avx2Transforms() { return kTransformsOf<winograd::Lanes8>; }
#else
const Functions& Avx2Functions() {
  static constexpr Functions kNone;
  return kNone;
}
const Transforms& Avx2Transforms() {
  static constexpr Transforms kNone;
  return kNone;
}
#endif

}  // namespace moka::batch_lanes
