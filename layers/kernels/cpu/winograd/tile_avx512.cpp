// The Winograd steps with AVX-512 registers; on other architectures the table is empty.
#include "layers/kernels/cpu/winograd/tile_steps.h"

namespace moka::winograd {

#if defined(__AVX2__) && defined(__FMA__) && defined(__AVX512F__)
const TileFunctions& Avx512TileFunctions(int taps, bool is_half) {
  if (taps == 3) return is_half ? kTileFunctions<Lanes16, BrainBits, 3> : kTileFunctions<Lanes16, float, 3>;
  return is_half ? kTileFunctions<Lanes16, BrainBits, 2> : kTileFunctions<Lanes16, float, 2>;
}
#else
const TileFunctions& Avx512TileFunctions(int /*taps*/, bool /*is_half*/) {
  static constexpr TileFunctions kNone;
  return kNone;
}
#endif

}  // namespace moka::winograd
