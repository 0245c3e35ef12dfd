// Marks on pictures B,G,R: boxes, words, coloured masks; pictures side by side on one sheet.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "data/image/mark_color.h"

namespace moka {

// Neighbouring numbers have colours that are easily told apart; bright on any background.
Color ColorOf(int64_t number);

// Corners in pixels, between pixels: what lies outside the picture is cut off.
struct MarkBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};
// `thickness` in pixels. Requires: 3 channels, as all here.
void DrawBox(const MarkBox& box, Color color, int thickness, Image& image);
void DrawLine(double from_x, double from_y, double to_x, double to_y, Color color, int thickness, Image& image);
void DrawDisc(double x, double y, int radius, Color color, Image& image);

// UTF-8. Words of ASCII are drawn in OpenCV's Hershey letters, others in the system's fonts (lettering.h).
struct WordStyle {
  double scale = 0.45;  // capitals are about 22 pixels high at 1
  Color color = {};
  bool has_ground = false;  // a filled box behind the words
  Color ground = {};
};
struct WordSize {
  int64_t width = 0;  // pixels
  int64_t height = 0;
};
WordSize SizeOfWords(const std::string& words, const WordStyle& style);
// The words' left and upper edge; they are moved to lie inside the picture where they can.
void DrawWords(const std::string& words, int64_t left, int64_t top, const WordStyle& style, Image& image);

// Pixels where the mask is not 0 become so much (0..1) of the colour. Requires: a mask value for each pixel.
void BlendMask(std::span<const uint8_t> mask, Color color, double part, Image& image);

// White paper.
Image Paper(int64_t width, int64_t height);
// Requires: it lies inside.
void Paste(const Image& from, int64_t x, int64_t y, Image& to);
// In rows of so many, each as large as the largest, `gap` pixels apart on white paper.
Image Tiled(const std::vector<Image>& images, int64_t columns, int64_t gap);

}  // namespace moka
