// Compiled for AMX; chosen at run time. A tile of C is two by two of the processor's, which hold 16 rows of 64 bytes:
// for each 16 words of k two of a's and two of b's are loaded and four products are made of them.
#include "layers/kernels/cpu/amx_shapes.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/matmul/gemm_pack.h"
#include "layers/kernels/cpu/matmul/gemm_pairs.h"
#include "layers/kernels/cpu/matmul/gemm_tile.h"

namespace moka::gemm {

#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
namespace {

using Floats = float __attribute__((vector_size(64)));

constexpr int kWordBytes = 4;
constexpr int kSide = kAmxRows;  // rows of a processor's tile, and words of one of them
constexpr int kColumns = 2 * kSide;
constexpr int kRowBytes = kSide * kWordBytes;
static_assert(kRowBytes == kAmxRowBytes);

// The rows that this thread's tiles have the shapes for, within a scope; 0: none yet.
constexpr int kNoScope = -1;
thread_local int shaped_rows = kNoScope;

// Tiles 0 and 1 are C's upper rows, 2 and 3 its lower ones, 4 and 5 a's upper and lower rows, 6 and 7 b's columns.
inline void Shape(int rows) {
  if (shaped_rows == rows) return;
  if (shaped_rows != kNoScope) shaped_rows = rows;
  const int upper = rows < kSide ? rows : kSide;
  const int of_tile[] = {upper, upper, rows - upper, rows - upper, upper, rows - upper, kSide, kSide};
  AmxShapes shapes;
  for (int tile = 0; tile < 8; ++tile) {
    if (of_tile[tile] == 0) continue;
    shapes.row_bytes[tile] = kAmxRowBytes;
    shapes.rows[tile] = static_cast<uint8_t>(of_tile[tile]);
  }
  LoadShapes(shapes);
}

void Enter() { shaped_rows = 0; }
void Leave() {
  if (shaped_rows > 0) _tile_release();
  shaped_rows = kNoScope;
}

// The products of one depth of 16 words: a [rows,16], b [16,32].
template <bool kHasLower>
inline void Multiply(const float* a, const float* b) {
  _tile_loadd(4, a, kRowBytes);
  _tile_loadd(6, b, 2 * kRowBytes);
  _tile_loadd(7, b + kSide, 2 * kRowBytes);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (kHasLower) {
    _tile_loadd(5, a + kSide * kSide, kRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

inline void Prefetch(const TileArgs& t, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    __builtin_prefetch(t.next + i * t.next_stride);
    __builtin_prefetch(t.next + i * t.next_stride + kLine);
  }
}

template <bool kHasLower>
void TileOf(const TileArgs& t, int rows) {
  Shape(rows);
  const int64_t stride = t.c_stride * kWordBytes;
  float* const lower = t.c + kSide * t.c_stride;
  if (t.adds) {
    _tile_loadd(0, t.c, stride);
    _tile_loadd(1, t.c + kSide, stride);
    if constexpr (kHasLower) {
      _tile_loadd(2, lower, stride);
      _tile_loadd(3, lower + kSide, stride);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kHasLower) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  const int64_t steps = t.depth / kSide;
  const int64_t asks = t.next != nullptr ? t.next_steps : 0;
  for (int64_t step = 0; step < steps; ++step) {
    Prefetch(t, asks * step / steps, asks * (step + 1) / steps);
    Multiply<kHasLower>(t.a + step * rows * kSide, t.b + step * kSide * kColumns);
  }
  _tile_stored(0, t.c, stride);
  _tile_stored(1, t.c + kSide, stride);
  if constexpr (kHasLower) {
    _tile_stored(2, lower, stride);
    _tile_stored(3, lower + kSide, stride);
  }
  if (shaped_rows == kNoScope) _tile_release();
}

// Requires: neither a bias nor a ReLU.
void Run(const TileArgs& t, int rows) { rows > kSide ? TileOf<true>(t, rows) : TileOf<false>(t, rows); }

// Lines of 16 words as a's rows hold them, or turned from columns.
void PackLines(const Matrix& a, int64_t rows, int64_t k, float* packed) {
  for (int64_t at = 0; at < k && a.column_stride != 1; at += kSide) {
    for (int64_t first = 0; first < rows; first += kSide) {
      const int64_t count = Smaller(kSide, rows - first);
      const __mmask16 mask = MaskOf(count);
      Floats square[kSide];
      for (int p = 0; p < kSide; ++p) {
        const float* const column = a.data + first + (at + p) * a.column_stride;
        square[p] = reinterpret_cast<Floats>(_mm512_maskz_loadu_ps(mask, column));
      }
      TurnSquare<kSide / 2>(square);
      for (int64_t r = 0; r < count; ++r) Store(packed + at * rows + (first + r) * kSide, square[r]);
    }
  }
  if (a.column_stride != 1) return;
  for (int64_t at = 0; at < k; at += kSide) {
    for (int64_t r = 0; r < rows; ++r) {
      Store(packed + (at * rows + r * kSide), Load<Floats>(a.data + r * a.row_stride + at));
    }
  }
}

constexpr Tiles kTiles{.name = "amx_bf16",
                       .rows = 2 * kSide,
                       .columns = kColumns,
                       .run = Run,
                       .pack_panels = PackPanels<Floats, kColumns>,
                       .pack_rows = PackLines,
                       .values = 2,
                       .depth_multiple = kSide,
                       .round = RoundToPairs,
                       .interleave = Interleave,
                       .finish = FinishRows,
                       .enter = Enter,
                       .leave = Leave};

}  // namespace

const Tiles* AmxPairTiles() { return HasTiles() ? &kTiles : nullptr; }
#else
const Tiles* AmxPairTiles() { return nullptr; }
#endif

}  // namespace moka::gemm
