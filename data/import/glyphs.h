// Drawn digits for a first training without any download: stroke fonts (Hershey's), distorted at random. Digit i of a
// seed is always the same picture.
#pragma once

#include <cstdint>

#include "data/image/image.h"

namespace moka {

inline constexpr int64_t kGlyphSide = 28;

// Draws glyph `index` of the set `seed` into a grey 28x28 image, light on dark; returns which digit it is.
int DrawGlyph(uint64_t seed, uint64_t index, Image& image);

// Returns the digit that a glyph shows, without drawing it.
int GlyphDigit(uint64_t seed, uint64_t index);

}  // namespace moka
