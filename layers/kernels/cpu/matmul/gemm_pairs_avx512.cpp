// Compiled for AVX512-BF16; chosen at run time. Its dot products of pairs round once a pair, and read denormals as 0.
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/matmul/gemm_pack.h"
#include "layers/kernels/cpu/matmul/gemm_pairs.h"
#include "layers/kernels/cpu/matmul/gemm_tile.h"

namespace moka::gemm {

#ifdef __AVX512BF16__
namespace {

using Floats = float __attribute__((vector_size(64)));

struct PairWords {
  using Vector = Floats;
  static inline void Add(const float& a, const Floats& b, Floats& sum) {
    sum = reinterpret_cast<Floats>(_mm512_dpbf16_ps(
        reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(_mm512_set1_ps(a)), reinterpret_cast<__m512bh>(b)));
  }
};

// As the tiles of AVX-512: 28 sums, two vectors of b and one of a.
constexpr Tiles kTiles{.name = "avx512_bf16",
                       .rows = 14,
                       .columns = 32,
                       .run = AnyTile<PairWords, 2, 14>,
                       .pack_panels = PackPanels<Floats, 32>,
                       .pack_rows = PackRows<Floats>,
                       .values = 2,
                       .round = RoundToPairs,
                       .interleave = Interleave,
                       .finish = FinishRows};

}  // namespace

const Tiles* Avx512PairTiles() { return HasBFloat16Pairs() ? &kTiles : nullptr; }
#else
const Tiles* Avx512PairTiles() { return nullptr; }
#endif

}  // namespace moka::gemm
