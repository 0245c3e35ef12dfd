// The weight step of tile.h: U = G g G^T for a vector of output channels at a time. Weights whose output channels do
// not lie behind each other are transposed first.
#pragma once

#include "layers/cpu/winograd/points.h"
#include "layers/cpu/winograd/tile.h"

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
  if (s.tap_stride == 1) {
    for (int64_t i = 0; i < channels; ++i) {
      Transpose<V>(w + i * s.in_stride, s.out_stride, rows, kTaps, to + i * kTaps * V::kLanes, V::kLanes);
    }
    return;
  }
  for (int64_t tap = 0; tap < kTaps; ++tap) {
    Transpose<V>(w + tap * s.tap_stride, s.out_stride, rows, channels, to + tap * V::kLanes, kTaps * V::kLanes);
  }
}

// Nine vectors at w + tap*tap_stride to 36.
template <class V>
MOKA_INLINE void TransformWeights(const float* w, int64_t tap_stride, float* u, int64_t u_stride) {
  V columns[kPatch][3];
  for (int j = 0; j < 3; ++j) {
    V g[3];
    V t[kPatch];
    for (int i = 0; i < 3; ++i) g[i] = V::Load(w + (i * 3 + j) * tap_stride);
    TransformFilter(g, t);
    for (int i = 0; i < kPatch; ++i) columns[i][j] = t[i];
  }
  for (int i = 0; i < kPatch; ++i) {
    V t[kPatch];
    TransformFilter(columns[i], t);
    for (int j = 0; j < kPatch; ++j) t[j].Store(u + (i * kPatch + j) * u_stride);
  }
}

template <class V>
void Weights(const WeightStep& s) {
  constexpr int64_t kFloatBytes = 4;
  constexpr int64_t kLineBytes = 64;
  constexpr int64_t kLines = (kTaps * V::kLanes * kFloatBytes + kLineBytes - 1) / kLineBytes;  // a channel's share
  alignas(64) float gathered[V::kLanes * kTaps * V::kLanes];
  for (int64_t c = s.in_begin; c < s.in_end; c += V::kLanes) {
    const int64_t channels = s.in_end - c < V::kLanes ? s.in_end - c : V::kLanes;
    for (int64_t k = 0; k < s.vectors; ++k) {
      const int64_t out = s.out_block + k;
      const int64_t rest = s.out_channels - out * V::kLanes;
      const float* w = s.w + out * s.out_block_stride + c / V::kLanes * s.in_block_stride;
      // The next block of input channels, where both channels are in blocks: asked for while this one is transformed
      // (7x7 planes of 512 channels, batch 1: 1.15 times oneDNN's speed instead of 0.7).
      const char* next = static_cast<const char*>(static_cast<const void*>(w + s.in_block_stride));
      int64_t in_stride = s.in_stride;
      int64_t tap_stride = s.tap_stride;
      if (s.out_stride != 1) {
        GatherBlock<V>(s, w, rest < V::kLanes ? rest : V::kLanes, channels, gathered);
        w = gathered;
        in_stride = kTaps * V::kLanes;
        tap_stride = V::kLanes;
      }
      const float* first = s.is_rotated ? w + (kTaps - 1) * tap_stride : w;
      float* u = s.u + ((c - s.in_begin) * s.vectors + k) * V::kLanes;
      for (int64_t i = 0; i < channels; ++i) {
        for (int64_t line = 0; line < kLines; ++line) {
          _mm_prefetch(next + i * kTaps * V::kLanes * kFloatBytes + line * kLineBytes, _MM_HINT_T0);
        }
        TransformWeights<V>(first + i * in_stride, s.is_rotated ? -tap_stride : tap_stride,
                            u + i * s.vectors * V::kLanes, s.u_stride);
      }
    }
  }
}

}  // namespace moka::winograd
#endif
