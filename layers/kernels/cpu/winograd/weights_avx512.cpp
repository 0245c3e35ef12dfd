// The arithmetic of weights.cpp in vectors of 16 floats.
#include "layers/kernels/cpu/winograd/weights_body.h"

namespace moka::winograd {

#if defined(__AVX512F__)
const WeightsLanes* WeightsLanesAvx512(int taps) {
  return taps == 3 ? &kWeightsLanes<Lanes16, 3> : &kWeightsLanes<Lanes16, 2>;
}
#else
const WeightsLanes* WeightsLanesAvx512(int /*taps*/) { return nullptr; }
#endif

}  // namespace moka::winograd
