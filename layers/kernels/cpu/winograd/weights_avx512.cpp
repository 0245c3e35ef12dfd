// The arithmetic of weights.cpp in vectors of 16 floats.
#include "layers/kernels/cpu/winograd/weights_body.h"

namespace moka::winograd {

#if defined(__AVX512F__)
const WeightsLanes* WeightsLanesAvx512(int taps, bool is_half) {
  if (taps == 3) return is_half ? &kWeightsLanes<Lanes16, BrainBits, 3> : &kWeightsLanes<Lanes16, float, 3>;
  return is_half ? &kWeightsLanes<Lanes16, BrainBits, 2> : &kWeightsLanes<Lanes16, float, 2>;
}
#else
const WeightsLanes* WeightsLanesAvx512(int /*taps*/, bool /*is_half*/) { return nullptr; }
#endif

}  // namespace moka::winograd
