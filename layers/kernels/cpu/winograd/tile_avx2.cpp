// The Winograd steps with AVX2 registers; on other architectures the table is empty.
#include "layers/kernels/cpu/winograd/tile_steps.h"

namespace moka::winograd {

#if defined(__AVX2__) && defined(__FMA__)
const TileFunctions& Avx2TileFunctions(int taps) {
  return taps == 3 ? kTileFunctions<Lanes8, 3> : kTileFunctions<Lanes8, 2>;
}
#else
const TileFunctions& Avx2TileFunctions(int /*taps*/) {
  static constexpr TileFunctions kNone;
  return kNone;
}
#endif

}  // namespace moka::winograd
