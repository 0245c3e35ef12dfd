// Winograd's algorithm along rows for windows of five columns: F(4,5) makes four outputs of eight products where the
// direct sum needs twenty (Lavin & Gray, arXiv 1509.09308; points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity). Rows of
// the window are summed directly, so transforms are cheap and errors small. A table of the transforms an instruction
// set; plain types only.
#pragma once

#include <cstdint>

namespace moka::batch_lanes {

inline constexpr int kPoints = 8;
inline constexpr int64_t kTileWidth = 4;  // outputs
inline constexpr int64_t kTapsWide = 5;

struct Transforms {
  // Row x of `width` elements: tile t is the elements from 4t - pad on (0 outside), point p of it goes to v[p*v_stride
  // + t*L].
  void (*input)(const float* x, int64_t width, int64_t pad, int64_t tiles, float* v, int64_t v_stride) = nullptr;
  // y[0..width) = max(floor, products + bias*lanes) of a row; point p of tile t is m[p*m_stride + t*L].
  void (*output)(const float* m, int64_t m_stride, int64_t width, float bias, const float* lanes, float floor,
                 float* y) = nullptr;
  // Row dy of `width` elements: tile t is four of them; point p of it goes to to[p*point_stride + t*step].
  void (*gradient)(const float* dy, int64_t width, float* to, int64_t step, int64_t point_stride) = nullptr;
};

// To be called on machines that have the instructions only.
const Transforms& Avx2Transforms();
const Transforms& Avx512Transforms();

}  // namespace moka::batch_lanes
