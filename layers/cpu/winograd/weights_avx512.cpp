// The arithmetic of weights.cpp in vectors of 16 floats.
#include "layers/cpu/winograd/weights_body.h"

namespace moka::winograd {

#if defined(__AVX512F__)
const WeightsLanes* WeightsLanesAvx512() { return &kWeightsLanes<Lanes16>; }
#else
const WeightsLanes* WeightsLanesAvx512() { return nullptr; }
#endif

}  // namespace moka::winograd
