// Transposes four rows of four floats at a time in registers. Large results are written past the caches, since a
// repacked result is read only in the next pass.
#include "layers/kernels/cpu/tiles/tile_transpose.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace moka::tile {

#if defined(__SSE__)

// Four rows of the result at a time, so that a streamed line is complete before the next one begins.
void TransposeBlock(const float* from, int64_t n, float* to, bool streams) {
  for (int64_t j = 0; j < n; j += 4) {
    for (int64_t i = 0; i < n; i += 4) {
      __m128 a = _mm_loadu_ps(from + i * n + j);
      __m128 b = _mm_loadu_ps(from + (i + 1) * n + j);
      __m128 c = _mm_loadu_ps(from + (i + 2) * n + j);
      __m128 d = _mm_loadu_ps(from + (i + 3) * n + j);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      float* at = to + j * n + i;
      if (streams) {
        _mm_stream_ps(at, a);
        _mm_stream_ps(at + n, b);
        _mm_stream_ps(at + 2 * n, c);
        _mm_stream_ps(at + 3 * n, d);
      } else {
        _mm_store_ps(at, a);
        _mm_store_ps(at + n, b);
        _mm_store_ps(at + 2 * n, c);
        _mm_store_ps(at + 3 * n, d);
      }
    }
  }
}

void StreamsDone() { _mm_sfence(); }

#else

void TransposeBlock(const float* from, int64_t n, float* to, bool) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) to[j * n + i] = from[i * n + j];
  }
}

void StreamsDone() {}

#endif

}  // namespace moka::tile
