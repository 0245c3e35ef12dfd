// Compiled for AVX-512; chosen at run time.
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/matmul/dots.h"
#include "layers/kernels/cpu/matmul/gemm_pack.h"
#include "layers/kernels/cpu/matmul/gemm_tile.h"

namespace moka::gemm {

#ifdef __AVX512F__
namespace {
using Vector = float __attribute__((vector_size(64)));
// 28 sums, two vectors of b and one of a: 31 of the 32 registers.
constexpr Tiles kTiles{"avx512",         14,          32, AnyTile<FloatWords<Vector>, 2, 14>, PackPanels<Vector, 32>,
                       PackRows<Vector>, Dots<Vector>};
}  // namespace

const Tiles* Avx512Tiles() { return HasAvx512() ? &kTiles : nullptr; }
#else
const Tiles* Avx512Tiles() { return nullptr; }
#endif

}  // namespace moka::gemm
