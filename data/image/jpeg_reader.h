// Decoding of JPEG files, whole or in part: only the rows and columns of a window become pixels, at the size that the
// file has or at a half, a quarter or an eighth of it, which the inverse cosine transform gives for less work than
// whole pixels (libjpeg's scaled decoding). Private to this room.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "data/image/image.h"

namespace moka {

class JpegReader {
 public:
  // Errors: kUnavailable without memory.
  JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader();

  struct Header {
    int64_t width = 0;
    int64_t height = 0;
    bool is_gray = false;
    bool is_cmyk = false;
  };
  // Reads the header of a file, whose bytes must stay where they are until Read returns. Strict: a file that needs
  // repair is an error, in Read too. Errors: kBadData.
  Header Open(std::string_view file, DecodeOptions::Damage damage);

  // Decodes what is open, which is closed then: at 1/divisor (1, 2, 4 or 8) of its size, rounded up, at least the
  // window, whose pixels are of that size. `out` gets 1 channel (grey) or 3; returns what it covers. The pixels of the
  // window are the same whatever is read around them. What lies below the window is not looked at, but for a strict
  // reader's search for the file's end. Requires: the window is not empty and lies inside. Errors: kBadData.
  ImageWindow Read(const ImageWindow& window, int divisor, bool gray, Image& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Pixels of a side at 1/divisor.
constexpr int64_t ScaledSide(int64_t side, int divisor) { return (side + divisor - 1) / divisor; }

}  // namespace moka
