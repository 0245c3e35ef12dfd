// Resizing a part of a picture and writing it, in one pass over the result's rows: antialiased linear interpolation as
// Pillow and torchvision have it, then each value times a factor plus a summand, mirrored where wanted, into the planes
// of a sample.
//
// Output pixel i of a side looks at the box around c = box begin + (i + 1/2) s, s = box side / output side, with the
// weights of a triangle of half-width max(s, 1) about c, normalised to sum 1; pixels outside the limits do not count.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image/image.h"

namespace moka {

// Pixels of one record in place: bytes or floats, [C,H,W] (planar, as a raw Datum) or [H,W,C] (interleaved).
struct PixelView {
  enum class Order { kPlanar, kInterleaved } order = Order::kPlanar;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  const uint8_t* bytes = nullptr;  // one of the two
  const float* floats = nullptr;
};
PixelView ViewOf(const Image& image);
// Copies a record's pixels. Errors: kBadData unless they are bytes of one or three channels.
Image ImageOf(const PixelView& pixels);
inline ImageSize SizeOf(const PixelView& pixels) { return {pixels.channels, pixels.height, pixels.width}; }

// The weights of one side: result i is the sum of weights[i * taps + t] times pixel first[i] + t.
struct ResampleAxis {
  int64_t taps = 0;
  std::vector<int64_t> first;
  std::vector<float> weights;  // zero where fewer than taps count
};

struct ResampleScratch {
  ResampleAxis rows;
  ResampleAxis columns;      // counted from first_column
  int64_t first_column = 0;  // of the picture, that counts
  int64_t column_count = 0;
  std::vector<float> line;    // a blended row
  std::vector<float> planes;  // of ResampleToImage
};

// Where and how the pixels are written: as planes [C,height,width] of pixel * factor[c] + summand[c].
struct PlaneWriter {
  const float* factors = nullptr;  // one a channel
  const float* summands = nullptr;
  bool mirror = false;
  float* planes = nullptr;
};

// The box that is resized, and the size that it comes to have.
struct ResamplePart {
  ImageBox box;
  ImageBox limits;
  int64_t height = 0;
  int64_t width = 0;
};

// Requires: 8-bit pixels; the box has an area and lies within the limits, those inside the picture; height and width
// are positive.
void ResampleToPlanes(const PixelView& from, const ResamplePart& part, const PlaneWriter& writer,
                      ResampleScratch& scratch);
// Rounded to bytes, interleaved. Requires: as above, and 1 or 3 channels.
void ResampleToImage(const PixelView& from, const ResamplePart& part, ResampleScratch& scratch, Image& to);

}  // namespace moka
