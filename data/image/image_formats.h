// The decoders behind ImageDecoder, a file each, and the bounded reads that they share. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/image/image.h"

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

// Each fills `out` with 1 channel where the file stores grey, else 3; an alpha channel is dropped. What is lost is
// marked. Requires: `header` is the file's, and its pixels are within the limit. Errors: kBadData.
void DecodePng(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out,
               ImageLosses& losses);
// The samples of a PNG of grey or of a palette, as they are stored: indices stay indices, and the values of a few bits
// are not stretched. Requires: as above. Errors: kBadData, also for other colour types.
void DecodePngSamples(std::string_view file, const ImageHeader& header, std::vector<uint16_t>& samples);
// Whether a PNG stores one byte of grey a pixel. Requires: it was decoded.
bool IsGrayBytePng(std::string_view file);
void DecodeBmp(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out);
void DecodeGif(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out,
               ImageLosses& losses);
void DecodePnm(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out,
               ImageLosses& losses);
// Upright, if the options say so.
void DecodeTiff(std::string_view file, const ImageHeader& header, const DecodeOptions& options, Image& out,
                ImageLosses& losses);
void DecodeWebp(std::string_view file, const ImageHeader& header, Image& out, ImageLosses& losses);

inline void Mark(ImageLoss loss, ImageLosses& losses) { losses.set(static_cast<size_t>(loss)); }

// The sizes of a PNM and of a TIFF's first page; unchanged where the header gives none. Errors: kBadData for a TIFF
// that is a camera's raw file, whose first page is a thumbnail.
void ReadPnmSize(std::string_view file, ImageHeader& header);
void ReadTiffSize(std::string_view file, ImageHeader& header);
// A tag's first value in the first directory of a TIFF, classic or big; 0 where there is none.
uint64_t TiffTag(std::string_view file, uint32_t tag);
bool IsPnm(std::string_view file);
bool IsTiff(std::string_view file);

}  // namespace moka
