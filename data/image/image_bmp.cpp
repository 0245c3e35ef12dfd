// BMP files: palettes of 1, 4 and 8 bits, also run-length coded, and colour of 16, 24 and 32 bits, the rows from the
// bottom or from the top. Every read is bounded by the file.
#include <algorithm>
#include <array>
#include <bit>

#include "core/text.h"
#include "data/image/image_formats.h"

namespace moka {
namespace {

using PaletteColor = std::array<uint8_t, 3>;  // B,G,R

enum Compression : uint32_t { kPlain = 0, kRuns8 = 1, kRuns4 = 2, kMasks = 3, kMasksWithAlpha = 6 };

// One of a pixel's colours by its bits; fewer than 8 are shifted up and the low ones stay 0, as OpenCV does it.
uint8_t Masked(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const int low = std::countr_zero(mask);
  const auto width = static_cast<int>(std::bit_width(mask >> static_cast<unsigned>(low)));
  const uint32_t value = (pixel & mask) >> static_cast<unsigned>(low);
  return static_cast<uint8_t>(width > 8 ? value >> static_cast<unsigned>(width - 8)
                                        : value << static_cast<unsigned>(8 - width));
}

class BmpReader {
 public:
  BmpReader(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage)
      : file_(file),
        bytes_(file),
        width_(header.width),
        height_(header.height),
        strict_(damage == DecodeOptions::Damage::kStrict) {
    constexpr size_t kFileHeader = 14;
    const size_t header_bytes = bytes_.Little(kFileHeader, 4);
    short_header_ = header_bytes == 12;
    if (!short_header_ && header_bytes < 40)
      throw CannotDecode("BMP", StrCat("a header of ", header_bytes, " bytes is not supported"));
    pixels_at_ = bytes_.Little(10, 4);
    bits_ = bytes_.Little(short_header_ ? 24 : 28, 2);
    if (!short_header_) {
      compression_ = bytes_.Little(30, 4);
      from_top_ = (bytes_.Little(22, 4) & 0x80000000U) != 0;
    }
    CheckLayout();
    if (pixels_at_ < kFileHeader + header_bytes) throw CannotDecode("BMP", "its pixels begin inside its header");
    if (bits_ <= 8) ReadPalette(kFileHeader + header_bytes);
    if (bits_ == 16) masks_ = {0x001F, 0x03E0, 0x7C00};
    if (compression_ == kMasks || compression_ == kMasksWithAlpha) {
      for (size_t c = 0; c < 3; ++c) masks_[c] = bytes_.Little(54 + 4 * (2 - c), 4);
    }
  }

  void Read(Image& out) {
    const bool gray = bits_ <= 8 && std::all_of(palette_.begin(), palette_.begin() + (1 << bits_),
                                                [](const PaletteColor& c) { return c[0] == c[1] && c[1] == c[2]; });
    out.Resize(width_, height_, gray ? 1 : 3);
    if (compression_ == kRuns8 || compression_ == kRuns4) {
      ReadRuns(out);
    } else {
      ReadRows(out);
    }
  }

 private:
  void CheckLayout() const {
    const bool palette = bits_ == 1 || bits_ == 4 || bits_ == 8;
    const bool plain = compression_ == kPlain && (palette || bits_ == 16 || bits_ == 24 || bits_ == 32);
    const bool runs = (compression_ == kRuns8 && bits_ == 8) || (compression_ == kRuns4 && bits_ == 4);
    const bool masks = (compression_ == kMasks || compression_ == kMasksWithAlpha) && (bits_ == 16 || bits_ == 32);
    if (!plain && !runs && !masks) {
      throw CannotDecode("BMP", StrCat(bits_, " bits a pixel with compression ", compression_, " are not supported"));
    }
  }

  // Entries that the file lacks stay black.
  void ReadPalette(size_t at) {
    const size_t entry_bytes = short_header_ ? 3 : 4;
    const size_t used = short_header_ ? 0 : bytes_.Little(46, 4);
    const size_t all = size_t{1} << bits_;
    for (size_t i = 0; i < (used == 0 ? all : std::min(used, all)); ++i, at += entry_bytes) {
      for (size_t c = 0; c < 3; ++c) palette_[i][c] = static_cast<uint8_t>(bytes_.At(at + c));
    }
  }

  uint8_t* RowOf(Image& out, int64_t y) const {
    return out.pixels.data() + (from_top_ ? y : height_ - 1 - y) * width_ * out.channels;
  }

  void ReadRows(Image& out) {
    const int64_t row_bytes = (width_ * bits_ + 31) / 32 * 4;
    const auto file_bytes = static_cast<int64_t>(bytes_.size());
    const int64_t whole_rows = std::clamp<int64_t>((file_bytes - pixels_at_) / row_bytes, 0, height_);
    if (whole_rows < height_) {
      if (strict_ || whole_rows == 0) {
        throw CannotDecode(
            "BMP", StrCat("its pixels end at byte ", pixels_at_ + row_bytes * height_, ", the file at ", file_bytes));
      }
      std::fill(out.pixels.begin(), out.pixels.end(), uint8_t{0});
    }
    for (int64_t y = 0; y < whole_rows; ++y) {
      uint8_t* to = RowOf(out, y);
      const auto from = static_cast<size_t>(pixels_at_ + y * row_bytes);
      if (bits_ == 24) {
        std::copy_n(file_.data() + from, width_ * 3, to);
        continue;
      }
      for (int64_t x = 0; x < width_; ++x, to += out.channels) {
        const PaletteColor color = PixelOf(from, static_cast<size_t>(x));
        std::copy_n(color.data(), out.channels, to);
      }
    }
  }

  PaletteColor PixelOf(size_t row, size_t x) const {
    if (bits_ <= 8) {
      const size_t bit = x * bits_;  // the leftmost pixel has a byte's highest bits
      return palette_[bytes_.At(row + bit / 8) >> (8 - bits_ - bit % 8) & ((1U << bits_) - 1)];
    }
    const uint32_t pixel = bytes_.Little(row + x * bits_ / 8, static_cast<int>(bits_ / 8));
    return {Masked(pixel, masks_[0]), Masked(pixel, masks_[1]), Masked(pixel, masks_[2])};
  }

  // Pairs of bytes: a count and a value; or 0 and 0: end of the row, 1: of the picture, 2: a step right and up, else so
  // many single values, padded to an even number of bytes. Pixels that are stepped over have the palette's first
  // colour.
  void ReadRuns(Image& out) {
    for (int64_t i = 0; i < width_ * height_; ++i) {
      std::copy_n(palette_[0].data(), out.channels, out.pixels.data() + i * out.channels);
    }
    int64_t x = 0;
    int64_t y = 0;
    const auto put = [&](uint32_t index) {
      if (x < width_ && y < height_) {
        std::copy_n(palette_[index].data(), out.channels, RowOf(out, y) + x * out.channels);
      } else if (strict_) {
        throw CannotDecode("BMP", StrCat("a run leaves row ", y));
      }
      ++x;
    };
    const auto value_of = [&](uint32_t byte, uint32_t k) {
      return bits_ == 8 ? byte : byte >> (k % 2 == 0 ? 4U : 0U) & 15U;
    };
    size_t at = pixels_at_;
    while (at + 2 <= bytes_.size()) {
      const uint32_t count = bytes_.At(at);
      const uint32_t value = bytes_.At(at + 1);
      at += 2;
      if (count > 0) {
        for (uint32_t k = 0; k < count; ++k) put(value_of(value, k));
      } else if (value == 0) {
        x = 0;
        ++y;
      } else if (value == 1) {
        return;
      } else if (value == 2) {
        x += bytes_.At(at);
        y += bytes_.At(at + 1);
        at += 2;
      } else {
        if (at + (value * bits_ + 7) / 8 > bytes_.size()) break;
        for (uint32_t k = 0; k < value; ++k) put(value_of(bytes_.At(at + k * bits_ / 8), k));
        at += (value * bits_ + 15) / 16 * 2;
      }
    }
    const bool all_rows = y >= height_ || (y == height_ - 1 && x >= width_);  // some writers leave out the end mark
    if (strict_ && !all_rows) throw CannotDecode("BMP", StrCat("the file ends in row ", y, " of ", height_));
  }

  std::string_view file_;
  BoundedBytes bytes_;
  int64_t width_;
  int64_t height_;
  bool strict_;
  bool short_header_ = false;  // OS/2's
  bool from_top_ = false;
  uint32_t bits_ = 0;  // of a pixel
  uint32_t compression_ = kPlain;
  uint32_t pixels_at_ = 0;
  std::array<uint32_t, 3> masks_ = {0xFF, 0xFF00, 0xFF0000};  // B,G,R
  std::array<PaletteColor, 256> palette_ = {};
};

}  // namespace

void DecodeBmp(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out) {
  BmpReader(file, header, damage).Read(out);
}

}  // namespace moka
