// The arithmetic of weights.cpp in vectors of 8 floats.
#include "layers/kernels/cpu/winograd/weights_body.h"

namespace moka::winograd {

#if defined(__AVX2__) && defined(__FMA__)
const WeightsLanes* WeightsLanesAvx2(int taps) {
  return taps == 3 ? &kWeightsLanes<Lanes8, 3> : &kWeightsLanes<Lanes8, 2>;
}
#else
const WeightsLanes* WeightsLanesAvx2(int /*taps*/) { return nullptr; }
#endif

}  // namespace moka::winograd
