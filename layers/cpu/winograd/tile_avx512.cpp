// The Winograd steps with AVX-512 registers; on other architectures the table is empty.
#include "layers/cpu/winograd/tile_steps.h"

namespace moka::winograd {

#if defined(__AVX2__) && defined(__FMA__) && defined(__AVX512F__)
const TileFunctions& Avx512TileFunctions() {
  using V = Lanes16;
  static constexpr TileFunctions kFunctions = {V::kLanes, kGroupTiles<V>, Input<V>, Weights<V>, Multiply<V>, Output<V>};
  return kFunctions;
}
#else
const TileFunctions& Avx512TileFunctions() {
  static constexpr TileFunctions kNone;
  return kNone;
}
#endif

}  // namespace moka::winograd
