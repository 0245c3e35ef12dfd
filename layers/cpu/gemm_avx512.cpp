// Compiled for AVX-512; chosen at run time.
#include "layers/cpu/gemm_tile.h"

namespace moka::gemm {

#ifdef __AVX512F__
namespace {
using Vector = float __attribute__((vector_size(64)));
// 24 sums, two vectors of b and one of a: 27 of the 32 registers; rows in fours are packed faster than 14 of them.
constexpr Tiles kTiles{"avx512", 12, 32, AnyTile<Vector, 2, 12>};
}  // namespace

const Tiles* Avx512Tiles() { return __builtin_cpu_supports("avx512f") ? &kTiles : nullptr; }
#else
const Tiles* Avx512Tiles() { return nullptr; }
#endif

}  // namespace moka::gemm
