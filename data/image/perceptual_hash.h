// A picture's look in few bytes, by which two files of one picture are known: sized anew, encoded anew, a little
// brighter or darker. The 64 bits are a difference hash: the picture is averaged down to 9 x 8 grey cells, and each bit
// says whether a cell is darker than its right neighbour, by more than noise makes (N. Krawetz, "Kind of Like That",
// The Hacker Factor Blog, 2013). As drawings of few strokes share many of these bits by chance, the averages of 8 x 8
// cells decide.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "data/image/image.h"

namespace moka {

struct PerceptualHash {
  uint64_t bits = 0;                       // row by row from the highest
  std::array<uint8_t, 64> cells = {};      // grey averages, row by row
  std::array<uint8_t, 3> mean_color = {};  // B,G,R
  bool is_flat = false;                    // the cells hardly differ: the bits say nothing
};

// Bits in which two files of one picture may differ.
inline constexpr int kNearBits = 7;

// Requires: the image has 1 or 3 channels and at least one pixel.
PerceptualHash PerceptualHashOf(const Image& image);

inline int HammingDistance(uint64_t a, uint64_t b) { return std::popcount(a ^ b); }

// Whether the two are one picture by all that is known of them: few bits differ, the cells hardly do but for a common
// change of brightness, and the colours are alike. Flat pictures are like none.
bool AreNear(const PerceptualHash& a, const PerceptualHash& b);

}  // namespace moka
