// The shapes of AMX's tiles, as LDTILECFG takes them (Intel's manual, volume 1, 18.2). No std in this header: files of
// other instruction sets include it.
#pragma once

#if defined(__x86_64__)
#include <cstdint>

namespace moka {

constexpr int kAmxRows = 16;      // of a tile, at most
constexpr int kAmxRowBytes = 64;  // at most

struct alignas(64) AmxShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  // of tiles 0 to 7
  uint8_t rows[16] = {};
};

// Requires: HasTiles(). The compiler's own _tile_loadconfig does not say that it reads the whole of its operand (GCC 12
// drops what was written behind the first bytes).
inline void LoadShapes(const AmxShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }

}  // namespace moka
#endif
