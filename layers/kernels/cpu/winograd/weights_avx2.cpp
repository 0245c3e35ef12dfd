// The arithmetic of weights.cpp in vectors of 8 floats.
#include "layers/kernels/cpu/winograd/weights_body.h"

namespace moka::winograd {

#if defined(__AVX2__) && defined(__FMA__)
const WeightsLanes* WeightsLanesAvx2(int taps, bool is_half) {
  if (taps == 3) return is_half ? &kWeightsLanes<Lanes8, BrainBits, 3> : &kWeightsLanes<Lanes8, float, 3>;
  return is_half ? &kWeightsLanes<Lanes8, BrainBits, 2> : &kWeightsLanes<Lanes8, float, 2>;
}
#else
const WeightsLanes* WeightsLanesAvx2(int /*taps*/, bool /*is_half*/) { return nullptr; }
#endif

}  // namespace moka::winograd
