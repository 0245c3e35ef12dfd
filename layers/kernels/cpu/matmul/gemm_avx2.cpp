// Compiled for AVX2 with FMA; chosen at run time.
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/matmul/dots.h"
#include "layers/kernels/cpu/matmul/gemm_pack.h"
#include "layers/kernels/cpu/matmul/gemm_tile.h"

namespace moka::gemm {

#if defined(__AVX2__) && defined(__FMA__)
namespace {
using Vector = float __attribute__((vector_size(32)));
// 12 sums, three vectors of b and one of a: the 16 registers.
using Rows = float __attribute__((vector_size(16)));
constexpr Tiles kTiles{"avx2",         4,           24, AnyTile<FloatWords<Vector>, 3, 4>, PackPanels<Vector, 24>,
                       PackRows<Rows>, Dots<Vector>};
}  // namespace

const Tiles* Avx2Tiles() { return HasAvx2() ? &kTiles : nullptr; }
#else
const Tiles* Avx2Tiles() { return nullptr; }
#endif

}  // namespace moka::gemm
