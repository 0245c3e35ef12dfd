// Four floats at a time, which every processor of 64 bits has.
#include "layers/kernels/cpu/matmul/dots.h"
#include "layers/kernels/cpu/matmul/gemm_pack.h"
#include "layers/kernels/cpu/matmul/gemm_tile.h"

namespace moka::gemm {
namespace {
using Vector = float __attribute__((vector_size(16)));
constexpr Tiles kTiles{"portable",       4,           8, AnyTile<FloatWords<Vector>, 2, 4>, PackPanels<Vector, 8>,
                       PackRows<Vector>, Dots<Vector>};
}  // namespace

const Tiles& PortableTiles() { return kTiles; }

}  // namespace moka::gemm
