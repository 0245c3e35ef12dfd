// The arithmetic of narrow.cpp in vectors of 16 floats.
#include "layers/kernels/cpu/narrow/narrow_body.h"

namespace moka::narrow {

#if defined(__AVX512F__)
const Lanes* LanesAvx512() { return &kLanesOf<Lanes16>; }
#else
const Lanes* LanesAvx512() { return nullptr; }
#endif

}  // namespace moka::narrow
