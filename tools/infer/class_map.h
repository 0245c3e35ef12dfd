// The map that a segmenting net makes of a picture of any size: a class for each of its pixels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "tools/infer/picture_net.h"

namespace moka {

// The classes of a picture's pixels: row-major, as large as the picture was.
struct ClassMap {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> classes;
  double entropy = 0;  // of the scores of the pixels, their mean (tools/infer/uncertainty.h), where it was asked for
};

// How pictures come into the net's input. Without `overlap` they are resized to it, and its map back. With it they are
// cut, at their own size, into tiles as large as the input that overlap by so many pixels at each side, the picture
// mirrored at its borders (U-Net's overlap-tile strategy, Ronneberger et al., arXiv 1505.04597, figure 2).
struct MapOptions {
  std::string output;                   // top [N,C,h,w]; of C = 1 the probability of class 1
  int64_t margin = 0;                   // pixels of the input at each side that the map leaves out
  std::optional<int64_t> overlap = {};  // at least the margin
  bool has_entropy = false;
};

// Errors: kConfig unless the output is [N,C,h,w] with at most 256 classes and the options leave something of a tile.
void CheckMapOptions(const PictureNet& net, const MapOptions& options);
// Requires: CheckMapOptions; the picture is the last that PictureNet loaded into slot 0.
ClassMap MapOf(PictureNet& net, const Image& picture, const MapOptions& options);

}  // namespace moka
