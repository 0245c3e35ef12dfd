// The decoders behind ImageDecoder, a file each, and the bounded reads that they share. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/image.h"

namespace moka {

// Bounded reads of unsigned numbers; past the end they give 0.
class BoundedBytes {
 public:
  explicit BoundedBytes(std::string_view bytes) : bytes_(bytes) {}
  uint32_t At(size_t i) const { return i < bytes_.size() ? static_cast<uint8_t>(bytes_[i]) : 0U; }
  uint32_t Big(size_t i, int count) const {
    uint32_t value = 0;
    for (int k = 0; k < count; ++k) value = value << 8U | At(i + static_cast<size_t>(k));
    return value;
  }
  uint32_t Little(size_t i, int count) const {
    uint32_t value = 0;
    for (int k = count; k-- > 0;) value = value << 8U | At(i + static_cast<size_t>(k));
    return value;
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

// "cannot decode the PNG: reason", kBadData.
Error CannotDecode(std::string_view format, std::string_view reason);

// Each fills `out` with 1 channel where the file stores grey, else 3; an alpha channel is dropped.
// Requires: `header` is the file's, and its pixels are within the limit.
// Errors: kBadData.
void DecodePng(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out);
// The samples of a PNG of grey or of a palette, as they are stored: indices stay indices, and the values of a few bits
// are not stretched. Requires: as above. Errors: kBadData, also for other colour types.
void DecodePngSamples(std::string_view file, const ImageHeader& header, std::vector<uint16_t>& samples);
// Whether a PNG stores one byte of grey a pixel. Requires: it was decoded.
bool IsGreyBytePng(std::string_view file);
void DecodeBmp(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out);
void DecodeGif(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out);
void DecodeWebp(std::string_view file, const ImageHeader& header, Image& out);

}  // namespace moka
