// Words in any script on pictures: letters of the system's fonts, found by fontconfig for each character and drawn by
// FreeType, one beside another from left to right. Of a character that no font has a box with a cross is drawn, and a
// warning names it once.
#pragma once

#include <cstdint>
#include <string_view>

#include "data/image/image.h"
#include "data/image/mark_color.h"

namespace moka {

struct LetterSize {
  int64_t width = 0;  // pixels
  int64_t above = 0;  // the line that letters stand on
  int64_t below = 0;
};
// `height`: of a font's letters in pixels, from the lowest tail to the highest accent or so.
LetterSize SizeOfLetters(std::string_view text, int height);
// From x on, standing on the line y; what lies outside the picture is cut off. Requires: 3 channels.
void DrawLetters(std::string_view text, int64_t x, int64_t y, int height, Color color, Image& image);

}  // namespace moka
