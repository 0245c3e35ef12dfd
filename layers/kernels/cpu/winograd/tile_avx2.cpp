// The Winograd steps with AVX2 registers; on other architectures the table is empty.
#include "layers/kernels/cpu/winograd/tile_steps.h"

namespace moka::winograd {

#if defined(__AVX2__) && defined(__FMA__)
const TileFunctions& Avx2TileFunctions(int taps, bool is_half) {
  if (taps == 3) return is_half ? kTileFunctions<Lanes8, BrainBits, 3> : kTileFunctions<Lanes8, float, 3>;
  return is_half ? kTileFunctions<Lanes8, BrainBits, 2> : kTileFunctions<Lanes8, float, 2>;
}
#else
const TileFunctions& Avx2TileFunctions(int /*taps*/, bool /*is_half*/) {
  static constexpr TileFunctions kNone;
  return kNone;
}
#endif

}  // namespace moka::winograd
