// The arithmetic of narrow.cpp in vectors of 8 floats.
#include "layers/kernels/cpu/narrow/narrow_body.h"

namespace moka::narrow {

#if defined(__AVX2__) && defined(__FMA__)
const Lanes* LanesAvx2() { return &kLanesOf<Lanes8>; }
#else
const Lanes* LanesAvx2() { return nullptr; }
#endif

}  // namespace moka::narrow
