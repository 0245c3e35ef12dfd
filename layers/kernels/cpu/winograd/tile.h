// The four steps of a Winograd convolution over channel-blocked memory, each on a range of tiles and channels of the
// caller's choice; how they are scheduled is not known here. A tile is 4x4 outputs of one plane; with windows of R x R
// taps it needs a patch of (R+3) x (R+3) inputs, whose transform has as many points, and at each point the tiles are
// rows of a matrix product over input channels (Lavin & Gray, arXiv 1509.09308, section 4.1).
//
// R is 3, or 2 for 4x4 windows of stride 2: those are a sum of four correlations of stride 1 and 2x2 taps, one for each
// phase, that is, parity of x's row and column. Each phase counts as channels of its own: channel block b of phase f
// is block 4b + f of the products. The gradient of the input has phases of its results instead: each is a
// correlation of 2x2 taps whose outputs are two elements apart.
//
// Tables of these functions exist for 8 and 16 lanes, and for float and bfloat16 as the elements of x, summand and y;
// all is computed in float. Memory, with L lanes, all of it 64-byte aligned:
//   v  transformed inputs  [points (v_stride)][groups of tiles][channel block and phase][tile of the group][L]
//   u  transformed weights [points (u_stride)][input channel][vectors*L output channels]
//   m  their products      [points (m_stride)][tile][vectors*L output channels]
// Tiles go in groups of equal size, as many as the multiply step has registers for.
//
// Narrow tiles stand at the lower and right edge of planes whose edges are no multiples of 4, with three taps: m
// outputs along an axis, whose patch has m + 2 inputs there and takes part in m + 2 of the products (narrow_points.h).
#pragma once

#include <cstdint>

namespace moka::winograd {

inline constexpr int kTile = 4;        // outputs along an edge
inline constexpr int kMaxVectors = 2;  // registers of output channels that are multiplied together
inline constexpr int kPhases = 4;      // of a stride of 2
inline constexpr int kKinds = 4;       // of tiles: narrow ones on the right, whole, narrow below, in the corner

// The planes of one correlation. Row i of the patch of tile row t is row (4t + i)*x_step - pad_top of x, and one
// further in phases 2 and 3; likewise columns in phases 1 and 3.
struct Frame {
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_height = 0;  // of this correlation
  int64_t out_width = 0;
  int64_t pad_top = 0;
  int64_t pad_left = 0;
  int64_t tile_rows = 0;
  int64_t tile_columns = 0;
  int64_t x_step = 1;          // 1 or 2
  int64_t x_phases = 1;        // 1 or kPhases
  int64_t y_step = 1;          // between outputs, along both axes
  int64_t y_width = 0;         // of the planes that outputs are written to
  int64_t y_first = 0;         // pixels before output (0,0)
  int64_t x_image_stride = 0;  // elements
  int64_t x_block_stride = 0;
  int64_t y_image_stride = 0;
  int64_t y_block_stride = 0;
};

// The tiles of one kind: a part of every plane's grid of tiles.
struct TileKind {
  int64_t row = 0;  // first of the grid
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
  int height = kTile;  // outputs of a tile
  int width = kTile;
};

// Whether tiles with so many outputs along an axis take part in the products at a point of it; whole ones do at all.
// Inlined, as sources for wider instructions use it too.
[[gnu::always_inline]] constexpr bool TakesPoint(int outputs, int64_t point) {
  switch (point) {
    case 0: return outputs >= 2;
    case 3: return outputs >= 3;
    case 4: return outputs == kTile;
    default: return true;
  }
}

// Tiles [first, first + count) of those that a kind has in all images, in row-major order; group g is [count*g/groups,
// count*(g+1)/groups).
struct Tiles {
  TileKind kind;
  int64_t first = 0;
  int64_t count = 0;
  int64_t groups = 0;
  int64_t before = 0;  // tiles of other kinds that stand before these in v and m
};

// The tiles that are carried through the steps together: the kinds that have tiles here.
struct TileBlock {
  Tiles kinds[kKinds];
  int64_t size = 0;
  [[gnu::always_inline]] const Tiles* begin() const { return kinds; }
  [[gnu::always_inline]] const Tiles* end() const { return kinds + size; }
};

struct InputStep {
  const Frame* frame = nullptr;
  Tiles tiles;
  int64_t group = 0;
  int64_t blocks = 0;  // of all channels
  int64_t block_begin = 0;
  int64_t block_end = 0;
  const void* x = nullptr;  // elements
  float* v = nullptr;
  int64_t v_stride = 0;
};

// Weights of output channels [out_block*L, ..+vectors*L) and input channels [in_begin, in_end) of the product, which
// with several phases are whole blocks of each. Element (o, i, tap) lies at
// w[o/L*out_block_stride + o%L*out_stride + i/L*in_block_stride + i%L*in_stride + tap*tap_stride].
// Row and column r of the R are first + r*step of the window's edge, and one further in odd phases as in Frame.
struct WeightStep {
  const float* w = nullptr;
  int64_t out_block_stride = 0;
  int64_t out_stride = 0;
  int64_t in_block_stride = 0;
  int64_t in_stride = 0;
  int64_t tap_stride = 0;
  int64_t window = 0;  // taps along an edge
  int64_t row_first = 0;
  int64_t column_first = 0;
  int64_t step = 1;  // below zero where the window is rotated: the gradient of the input
  int64_t phases = 1;
  int64_t in_channels = 0;  // of one phase
  int64_t out_channels = 0;
  int64_t out_block = 0;
  int64_t vectors = 0;
  int64_t in_begin = 0;  // a multiple of phases*L
  int64_t in_end = 0;
  float* u = nullptr;  // of channel in_begin
  int64_t u_stride = 0;
};

// m (+)= v u over input channels [in_begin, in_end) of the product.
struct MultiplyStep {
  const TileBlock* tiles = nullptr;
  int64_t blocks = 0;    // of all channels and phases in v
  int64_t in_begin = 0;  // a multiple of L
  int64_t in_end = 0;
  int64_t vectors = 0;
  bool adds = false;         // to what m holds
  const float* u = nullptr;  // of channel in_begin
  int64_t u_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  float* m = nullptr;
  int64_t m_stride = 0;
};

// y = max(floor, A^T m A + bias (+ summand)).
struct OutputStep {
  const Frame* frame = nullptr;
  Tiles tiles;
  int64_t vectors = 0;
  const float* m = nullptr;
  int64_t m_stride = 0;
  const float* bias = nullptr;    // [vectors*L]
  const void* summand = nullptr;  // like y, or null
  float floor = 0;
  void* y = nullptr;  // elements, of the first channel block
};

struct TileFunctions {
  int lanes = 0;
  int points = 0;
  int group_tiles = 0;  // the most tiles a group may have
  int element_bytes = 0;
  void (*input)(const InputStep&) = nullptr;
  void (*weights)(const WeightStep&) = nullptr;
  void (*multiply)(const MultiplyStep&) = nullptr;
  void (*output)(const OutputStep&) = nullptr;
};

// For `taps` of 3 or 2, and elements of bfloat16 or else float. To be called on machines that have the instructions
// only.
const TileFunctions& Avx2TileFunctions(int taps, bool is_half);
const TileFunctions& Avx512TileFunctions(int taps, bool is_half);

}  // namespace moka::winograd
