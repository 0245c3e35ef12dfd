// The weight step of tile.h: U = G g G^T for a vector of output channels at a time. Weights whose output channels do
// not lie behind each other are transposed first.
#pragma once

#include "layers/kernels/cpu/winograd/points.h"
#include "layers/kernels/cpu/winograd/tile.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {

// to[column*to_stride + row] = from[row*from_stride + column] for 8 rows and 8 columns.
MOKA_INLINE void Transpose8x8(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  __m256 r[8];
  __m256 t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * from_stride);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

// The same for L rows, of which `rows` exist (the others are zero), and any number of columns.
template <class V>
void Transpose(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  int64_t done = 0;
  if (rows == V::kLanes) {
    for (; done + 8 <= columns; done += 8) {
      for (int64_t row = 0; row < V::kLanes; row += 8) {
        Transpose8x8(from + row * from_stride + done, from_stride, to + done * to_stride + row, to_stride);
      }
    }
  }
  for (int64_t column = done; column < columns; ++column) {
    for (int64_t row = 0; row < V::kLanes; ++row) {
      to[column * to_stride + row] = row < rows ? from[row * from_stride + column] : 0;
    }
  }
}

// One block of input channels as [channel][tap][L output channels].
template <class V>
void GatherBlock(const WeightStep& s, const float* w, int64_t rows, int64_t channels, float* to) {
  const int64_t taps = s.window * s.window;
  if (s.tap_stride == 1) {
    for (int64_t i = 0; i < channels; ++i) {
      Transpose<V>(w + i * s.in_stride, s.out_stride, rows, taps, to + i * taps * V::kLanes, V::kLanes);
    }
    return;
  }
  for (int64_t tap = 0; tap < taps; ++tap) {
    // A phase of the results needs every second row and column.
    const int64_t row = tap / s.window - s.row_first;
    const int64_t column = tap % s.window - s.column_first;
    if (s.phases == 1 && (row % s.step != 0 || column % s.step != 0)) continue;
    Transpose<V>(w + tap * s.tap_stride, s.out_stride, rows, channels, to + tap * V::kLanes, taps * V::kLanes);
  }
}

// kTaps x kTaps vectors, row_stride and column_stride apart, to their points.
// U = G g G^T in two passes, each element a vector of output channels.
template <class V, int kTaps>
MOKA_INLINE void TransformTaps(const float* w, int64_t row_stride, int64_t column_stride, float* u, int64_t u_stride) {
  constexpr int kPatch = kTaps + 3;
  V columns[kPatch][kTaps];
  for (int j = 0; j < kTaps; ++j) {
    V g[kTaps];
    V t[kPatch];
    for (int i = 0; i < kTaps; ++i) g[i] = V::Load(w + i * row_stride + j * column_stride);
    TransformFilter(g, t);
    for (int i = 0; i < kPatch; ++i) columns[i][j] = t[i];
  }
  for (int i = 0; i < kPatch; ++i) {
    V t[kPatch];
    TransformFilter(columns[i], t);
    for (int j = 0; j < kPatch; ++j) t[j].Store(u + (i * kPatch + j) * u_stride);
  }
}

// Where one block of both channels lies.
struct WeightBlock {
  const float* w = nullptr;
  int64_t in_stride = 0;
  int64_t tap_stride = 0;
  int64_t channels = 0;         // input channels that it has
  const float* next = nullptr;  // the following block of input channels, where both channels are in blocks
};

// A phase's share of one block, [channel][vectors*L] at each point. The channels that the block lacks are zero where
// other phases' follow.
template <class V, int kTaps>
MOKA_INLINE void TransformBlock(const WeightStep& s, int64_t phase, const WeightBlock& block, float* u) {
  const int64_t tap = (s.row_first + (phase >> 1)) * s.window + s.column_first + (phase & 1);
  const float* first = block.w + tap * block.tap_stride;
  const float* next = block.next + tap * s.tap_stride;
  const int64_t row_stride = s.window * s.step;
  for (int64_t i = 0; i < block.channels; ++i, u += s.vectors * V::kLanes) {
    // Asked for while this block is transformed (7x7 planes of 512 channels, batch 1: 1.15 times oneDNN's speed instead
    // of 0.7).
    for (int64_t r = 0; r < kTaps; ++r) {
      for (int64_t c = 0; c < kTaps; ++c) {
        __builtin_prefetch(next + (r * row_stride + c * s.step) * s.tap_stride + i * V::kLanes);
      }
    }
    TransformTaps<V, kTaps>(first + i * block.in_stride, row_stride * block.tap_stride, s.step * block.tap_stride, u,
                            s.u_stride);
  }
  if (s.phases == 1) return;
  for (int64_t i = block.channels; i < V::kLanes; ++i, u += s.vectors * V::kLanes) {
    for (int64_t point = 0; point < (kTaps + 3) * (kTaps + 3); ++point) V::Zero().Store(u + point * s.u_stride);
  }
}

// Where output channels do not lie beside each other, a block of them is first gathered on the stack.
template <class V, int kTaps>
void Weights(const WeightStep& s) {
  constexpr int64_t kMostTaps = kTaps == 3 ? 9 : 16;
  alignas(64) float gathered[V::kLanes * kMostTaps * V::kLanes];
  const int64_t begin = s.in_begin / s.phases;
  for (int64_t c = begin; c * s.phases < s.in_end; c += V::kLanes) {
    for (int64_t k = 0; k < s.vectors; ++k) {
      const int64_t out = s.out_block + k;
      const int64_t outputs = Smaller(V::kLanes, s.out_channels - out * V::kLanes);
      const float* w = s.w + out * s.out_block_stride + c / V::kLanes * s.in_block_stride;
      WeightBlock block{w, s.in_stride, s.tap_stride, Smaller(V::kLanes, s.in_channels - c), w + s.in_block_stride};
      if (s.out_stride != 1) {
        GatherBlock<V>(s, w, outputs, block.channels, gathered);
        block.w = gathered;
        block.in_stride = s.window * s.window * V::kLanes;
        block.tap_stride = V::kLanes;
      }
      float* u = s.u + ((c - begin) * s.phases * s.vectors + k) * V::kLanes;
      for (int64_t phase = 0; phase < s.phases; ++phase, u += V::kLanes * s.vectors * V::kLanes) {
        TransformBlock<V, kTaps>(s, phase, block, u);
      }
    }
  }
}

}  // namespace moka::winograd
#endif
