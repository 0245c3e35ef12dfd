// TIFF files through libtiff, strip by strip or tile by tile: grey, palettes, colours, inks and JPEG's colours of 1 to
// 16 bits a sample. The library says what it minds to this file alone, and takes no more memory at once than is set.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "core/text.h"
#include "data/image/image_formats.h"

namespace moka {
namespace {

// The limits for one buffer in the library and for the pixels of a strip, which is unpacked as a whole.
constexpr tmsize_t kTiffMostBytes = tmsize_t{160} << 20U;
constexpr int64_t kTiffMostStripPixels = int64_t{1} << 25U;

// The file, and the first fault that the library told.
struct TiffState {
  std::string_view file;
  uint64_t at = 0;
  std::string fault;
};

TiffState& TiffStateOf(thandle_t handle) { return *static_cast<TiffState*>(handle); }

tmsize_t ReadTiffBytes(thandle_t handle, void* to, tmsize_t count) {
  TiffState& state = TiffStateOf(handle);
  const uint64_t left = state.at < state.file.size() ? state.file.size() - state.at : 0;
  const auto n = static_cast<size_t>(std::min<uint64_t>(left, static_cast<uint64_t>(std::max<tmsize_t>(count, 0))));
  std::memcpy(to, state.file.data() + (left == 0 ? 0 : state.at), n);
  state.at += n;
  return static_cast<tmsize_t>(n);
}

tmsize_t RefuseTiffBytes(thandle_t /*handle*/, void* /*from*/, tmsize_t /*count*/) { return 0; }

toff_t SeekTiff(thandle_t handle, toff_t offset, int whence) {
  TiffState& state = TiffStateOf(handle);
  const uint64_t from = whence == SEEK_CUR ? state.at : whence == SEEK_END ? state.file.size() : 0;
  return state.at = from + offset;
}

int CloseTiffState(thandle_t /*handle*/) { return 0; }
toff_t TiffSize(thandle_t handle) { return TiffStateOf(handle).file.size(); }

int KeepTiffFault(TIFF* /*tiff*/, void* data, const char* /*module*/, const char* format, va_list arguments) {
  auto& fault = static_cast<TiffState*>(data)->fault;
  if (!fault.empty()) return 1;
  constexpr size_t kMost = 256;
  fault.resize(kMost);
  const int length = std::vsnprintf(fault.data(), kMost, format, arguments);
  fault.resize(static_cast<size_t>(std::clamp(length, 0, static_cast<int>(kMost) - 1)));
  return 1;
}

int IgnoreTiffWarning(TIFF* /*tiff*/, void* /*data*/, const char* /*module*/, const char* /*format*/,
                      va_list /*arguments*/) {
  return 1;
}

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using TiffFile = std::unique_ptr<TIFF, CloseTiff>;

[[noreturn]] void FailTiff(const TiffState& state) {
  throw CannotDecode("TIFF", state.fault.empty() ? "damaged" : Printable(state.fault));
}

TiffFile OpenTiff(TiffState& state) {
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                 &TIFFOpenOptionsFree);
  if (options == nullptr) throw Error(ErrorKind::kUnavailable, "libtiff: no memory for its options");
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kTiffMostBytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), KeepTiffFault, &state);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), IgnoreTiffWarning, nullptr);
  TiffFile tiff(TIFFClientOpenExt("picture", "rm", &state, ReadTiffBytes, RefuseTiffBytes, SeekTiff, CloseTiffState,
                                  TiffSize, nullptr, nullptr, options.get()));
  if (tiff == nullptr) FailTiff(state);
  return tiff;
}

uint16_t TiffField(TIFF* tiff, uint32_t tag) {
  uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff, tag, &value);
  return value;
}

void CheckTiffSamples(TIFF* tiff) {
  const uint16_t bits = TiffField(tiff, TIFFTAG_BITSPERSAMPLE);
  const uint16_t format = TiffField(tiff, TIFFTAG_SAMPLEFORMAT);
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID) {
    throw CannotDecode("TIFF", StrCat("its samples of ", bits, " bits are ",
                                      format == SAMPLEFORMAT_INT      ? "numbers with a sign"
                                      : format == SAMPLEFORMAT_IEEEFP ? "floating-point numbers"
                                                                      : "complex numbers",
                                      ", expected numbers from 0 on of 1, 2, 4, 8 or 16 bits"));
  }
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16) {
    throw CannotDecode("TIFF", StrCat("its samples have ", bits, " bits, expected 1, 2, 4, 8 or 16"));
  }
}

// A rectangle of the picture, which the library has read with its last row first.
struct TiffBlock {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;   // inside the picture
  int64_t height = 0;  // inside the picture
  int64_t stride = 0;  // pixels of a row
  int64_t rows = 0;
};

void CopyTiffBlock(const std::vector<uint32_t>& raster, const TiffBlock& block, Image& out) {
  for (int64_t row = 0; row < block.height; ++row) {
    const uint32_t* from = raster.data() + (block.rows - 1 - row) * block.stride;
    uint8_t* to = out.pixels.data() + ((block.y + row) * out.width + block.x) * out.channels;
    for (int64_t x = 0; x < block.width; ++x, to += out.channels) {
      to[0] = static_cast<uint8_t>(out.channels == 3 ? TIFFGetB(from[x]) : TIFFGetR(from[x]));
      if (out.channels == 1) continue;
      to[1] = static_cast<uint8_t>(TIFFGetG(from[x]));
      to[2] = static_cast<uint8_t>(TIFFGetR(from[x]));
    }
  }
}

// Returns how many blocks could be read; stops at the first that cannot if the reader is strict.
int64_t ReadTiffTiles(TIFF* tiff, bool is_strict, Image& out) {
  uint32_t width = 0;
  uint32_t height = 0;
  TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_TILELENGTH, &height);
  if (width == 0 || height == 0 || int64_t{width} > kTiffMostStripPixels / height) {
    throw CannotDecode("TIFF", StrCat("its tiles of ", width, "x", height, " pixels are too large"));
  }
  std::vector<uint32_t> raster(size_t{width} * height);
  int64_t read = 0;
  for (int64_t y = 0; y < out.height; y += height) {
    for (int64_t x = 0; x < out.width; x += width) {
      if (TIFFReadRGBATileExt(tiff, static_cast<uint32_t>(x), static_cast<uint32_t>(y), raster.data(), 1) == 0) {
        if (is_strict) return -1;
        continue;
      }
      ++read;
      CopyTiffBlock(
          raster,
          {x, y, std::min<int64_t>(width, out.width - x), std::min<int64_t>(height, out.height - y), width, height},
          out);
    }
  }
  return read;
}

int64_t ReadTiffStrips(TIFF* tiff, bool is_strict, Image& out) {
  uint32_t rows_a_strip = 0;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &rows_a_strip);
  const int64_t step = std::clamp<int64_t>(rows_a_strip, 1, out.height);
  if (step > kTiffMostStripPixels / out.width) {
    throw CannotDecode("TIFF",
                       StrCat("its strips of ", step, " rows have more than ", kTiffMostStripPixels, " pixels"));
  }
  std::vector<uint32_t> raster(static_cast<size_t>(step * out.width));
  int64_t read = 0;
  for (int64_t y = 0; y < out.height; y += step) {
    if (TIFFReadRGBAStripExt(tiff, static_cast<uint32_t>(y), raster.data(), 1) == 0) {
      if (is_strict) return -1;
      continue;
    }
    ++read;
    const int64_t rows = std::min(step, out.height - y);
    CopyTiffBlock(raster, {0, y, out.width, rows, out.width, rows}, out);
  }
  return read;
}

// Pages that are neither smaller copies of another nor masks.
bool HasMorePages(TIFF* tiff) {
  constexpr int kMostLookedAt = 16;
  for (int i = 0; i < kMostLookedAt && TIFFReadDirectory(tiff) == 1; ++i) {
    uint32_t kind = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SUBFILETYPE, &kind);
    if ((kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) == 0) return true;
  }
  return false;
}

}  // namespace

bool IsTiff(std::string_view file) {
  using std::string_view_literals::operator""sv;
  return file.starts_with("II*\0"sv) || file.starts_with("MM\0*"sv) || file.starts_with("II+\0"sv) ||
         file.starts_with("MM\0+"sv);
}

void ReadTiffSize(std::string_view file, ImageHeader& header) {
  constexpr uint32_t kRawVersion = 50706;  // Adobe's DNG; other makers have a small copy of the picture first
  constexpr uint32_t kSubDirectories = 330;
  const bool is_reduced = (TiffTag(file, TIFFTAG_SUBFILETYPE) & FILETYPE_REDUCEDIMAGE) != 0;
  if (TiffTag(file, kRawVersion) != 0 || (is_reduced && TiffTag(file, kSubDirectories) != 0) ||
      (file.size() > 10 && file.substr(8, 2) == "CR")) {
    throw Error(ErrorKind::kBadData, "a camera's raw file (a format that is not read): develop it to a TIFF or JPEG");
  }
  const auto side = [&](uint32_t tag) {
    return static_cast<int64_t>(std::min<uint64_t>(TiffTag(file, tag), INT32_MAX));
  };
  header.width = side(TIFFTAG_IMAGEWIDTH);
  header.height = side(TIFFTAG_IMAGELENGTH);
}

void DecodeTiff(std::string_view file, const ImageHeader& header, const DecodeOptions& options, Image& out,
                ImageLosses& losses) {
  TiffState state{.file = file, .fault = {}};
  const TiffFile tiff = OpenTiff(state);
  uint32_t width = 0;
  uint32_t height = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  if (width != header.width || height != header.height) throw CannotDecode("TIFF", "its headers give two sizes");
  CheckTiffSamples(tiff.get());
  const uint16_t light = TiffField(tiff.get(), TIFFTAG_PHOTOMETRIC);
  const bool is_gray = light == PHOTOMETRIC_MINISBLACK || light == PHOTOMETRIC_MINISWHITE;
  uint16_t extra = 0;
  const uint16_t* extra_kinds = nullptr;
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_EXTRASAMPLES, &extra, &extra_kinds);
  if (extra > 0 && extra_kinds[0] != EXTRASAMPLE_UNSPECIFIED) Mark(ImageLoss::kTransparency, losses);
  if (extra == 1 && extra_kinds[0] == EXTRASAMPLE_UNASSALPHA) {
    // Colours stay as they are stored: the library would multiply them by a transparency that is not in them yet.
    const uint16_t as_stored = EXTRASAMPLE_ASSOCALPHA;
    TIFFSetField(tiff.get(), TIFFTAG_EXTRASAMPLES, 1, &as_stored);
  }
  if (light == PHOTOMETRIC_SEPARATED) Mark(ImageLoss::kInks, losses);
  if (TiffField(tiff.get(), TIFFTAG_BITSPERSAMPLE) > 8) Mark(ImageLoss::kDepth, losses);
  const uint16_t orientation = TiffField(tiff.get(), TIFFTAG_ORIENTATION);
  TIFFSetField(tiff.get(), TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
  out.Resize(width, height, is_gray ? 1 : 3);
  std::ranges::fill(out.pixels, uint8_t{0});
  const bool is_strict = options.damage == DecodeOptions::Damage::kStrict;
  const int64_t read = TIFFIsTiled(tiff.get()) != 0 ? ReadTiffTiles(tiff.get(), is_strict, out)
                                                    : ReadTiffStrips(tiff.get(), is_strict, out);
  if (read <= 0) FailTiff(state);
  if (HasMorePages(tiff.get())) Mark(ImageLoss::kPages, losses);
  if (options.orientation == DecodeOptions::Orientation::kUpright) ApplyOrientation(orientation, out);
}

}  // namespace moka
