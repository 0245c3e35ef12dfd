// The four steps of a Winograd convolution F(4x4,3x3) over channel-blocked memory, each on a range of tiles and
// channels of the caller's choice; how they are scheduled is not known here. A tile is 4x4 outputs of one plane and
// needs 6x6 inputs; its transform has 36 points, and at each point the tiles are rows of a matrix product over input
// channels (Lavin & Gray, arXiv 1509.09308, section 4.1). Two tables of these functions exist, of 8 and 16 lanes.
//
// Memory, with L lanes, all of it 64-byte aligned:
//   v  transformed inputs  [36 points (v_stride)][groups of tiles][channel block][tile of the group][L]
//   u  transformed weights [36 points (u_stride)][input channel][vectors*L output channels]
//   m  their products      [36 points (m_stride)][tile][vectors*L output channels]
// Tiles go in groups of equal size, as many as the multiply step has registers for.
#pragma once

#include <cstdint>

namespace moka::winograd {

inline constexpr int kPoints = 36;
inline constexpr int kTile = 4;   // outputs along an edge
inline constexpr int kPatch = 6;  // inputs along an edge
inline constexpr int kTaps = 9;
inline constexpr int kMaxVectors = 2;  // registers of output channels that are multiplied together

// The convolution's planes. Output (0,0) reads inputs from (-pad_top, -pad_left).
struct Frame {
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_height = 0;
  int64_t out_width = 0;
  int64_t pad_top = 0;
  int64_t pad_left = 0;
  int64_t tile_rows = 0;
  int64_t tile_columns = 0;
  int64_t x_image_stride = 0;  // floats
  int64_t x_block_stride = 0;
  int64_t y_image_stride = 0;
  int64_t y_block_stride = 0;
};

// Tiles [first, first + count) of all images' in row-major order; group g is [count*g/groups, count*(g+1)/groups).
struct Tiles {
  int64_t first = 0;
  int64_t count = 0;
  int64_t groups = 0;
};

struct InputStep {
  const Frame* frame = nullptr;
  Tiles tiles;
  int64_t group = 0;
  int64_t blocks = 0;  // of all channels in v
  int64_t block_begin = 0;
  int64_t block_end = 0;
  const float* x = nullptr;
  float* v = nullptr;
  int64_t v_stride = 0;
};

// Weights of output channels [out_block*L, ..+vectors*L) and input channels [in_begin, in_end). Element (o, i, tap)
// lies at w[o/L*out_block_stride + o%L*out_stride + i/L*in_block_stride + i%L*in_stride + tap*tap_stride].
struct WeightStep {
  const float* w = nullptr;
  int64_t out_block_stride = 0;
  int64_t out_stride = 0;
  int64_t in_block_stride = 0;
  int64_t in_stride = 0;
  int64_t tap_stride = 0;
  bool is_rotated = false;  // tap t is 8 - t: the gradient of the input
  int64_t out_channels = 0;
  int64_t out_block = 0;
  int64_t vectors = 0;
  int64_t in_begin = 0;  // a multiple of L
  int64_t in_end = 0;
  float* u = nullptr;  // of channel in_begin
  int64_t u_stride = 0;
};

// m (+)= v u over input channels [in_begin, in_end).
struct MultiplyStep {
  Tiles tiles;
  int64_t blocks = 0;    // of all channels in v
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
  const float* bias = nullptr;     // [vectors*L]
  const float* summand = nullptr;  // like y, or null
  float floor = 0;
  float* y = nullptr;  // of the first channel block
};

struct TileFunctions {
  int lanes = 0;
  int group_tiles = 0;  // the most tiles a group may have
  void (*input)(const InputStep&) = nullptr;
  void (*weights)(const WeightStep&) = nullptr;
  void (*multiply)(const MultiplyStep&) = nullptr;
  void (*output)(const OutputStep&) = nullptr;
};

// To be called on machines that have the instructions only.
const TileFunctions& Avx2TileFunctions();
const TileFunctions& Avx512TileFunctions();

}  // namespace moka::winograd
