// TIFF and PNM pictures, what is told of pictures that do not fit 8 bits of three colours, and the names of formats
// that are not read. TIFFs are written by libtiff, so that its reader meets every kind that it writes.
#include <tiffio.h>

#include "core/rng.h"
#include "core/text.h"
#include "data/import/import.h"
#include "tests/data/data_fixture.h"
#include "tests/data/image/damaged_pictures.h"

namespace moka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using std::string_view_literals::operator""sv;

struct FormatRead {
  Image image;
  ImageLosses losses;
};

FormatRead ReadPicture(std::string_view file, const DecodeOptions& options = {}) {
  ImageDecoder decoder;
  FormatRead read;
  decoder.Decode(file, options, read.image);
  read.losses = decoder.TakeLosses();
  return read;
}

ImageLosses Losses(std::initializer_list<ImageLoss> losses) {
  ImageLosses set;
  for (const ImageLoss loss : losses) set.set(static_cast<size_t>(loss));
  return set;
}

std::string PictureError(std::string_view file, const DecodeOptions& options = {}) {
  return ErrorOf([&] { ReadPicture(file, options); });
}

struct TiffKind {
  int bits = 8;
  int samples = 1;
  int light = PHOTOMETRIC_MINISBLACK;
  int compression = COMPRESSION_NONE;
  int rows_a_strip = 5;
  bool is_tiled = false;
  bool is_planar = false;
  int orientation = ORIENTATION_TOPLEFT;
  int format = SAMPLEFORMAT_UINT;
  const char* mode = "w";
};

constexpr int kTiffWidth = 37;
constexpr int kTiffHeight = 18;

// Sample c of a pixel, below 2^bits.
uint32_t SampleAt(const TiffKind& kind, int x, int y, int c) {
  const auto sample = static_cast<uint32_t>(x * 40503 + y * 25717 + c * 7919 * (x + 3 * y + 1));
  return static_cast<uint32_t>(sample % (uint64_t{1} << static_cast<unsigned>(kind.bits)));
}

void PackSample(uint32_t sample, int bits, size_t index, std::vector<uint8_t>& row) {
  if (bits > 8) {  // 16 or 32, the low byte first
    const auto bytes = static_cast<size_t>(bits) / 8;
    std::memcpy(row.data() + index * bytes, &sample, bytes);
    return;
  }
  const size_t bit = index * static_cast<size_t>(bits);
  row[bit / 8] = static_cast<uint8_t>(row[bit / 8] | sample << (8 - static_cast<size_t>(bits) - bit % 8));
}

// Returns the packed samples of the rectangle at x, y: of one plane, or of all side by side.
std::vector<uint8_t> PackedBlock(const TiffKind& kind, int x, int y, int width, int height, int plane) {
  const int side_by_side = kind.is_planar ? 1 : kind.samples;
  const size_t row_bytes = (static_cast<size_t>(width * side_by_side * kind.bits) + 7) / 8;
  std::vector<uint8_t> block;
  for (int row = 0; row < height; ++row) {
    std::vector<uint8_t> packed(row_bytes);
    for (int i = 0; i < width * side_by_side; ++i) {
      const int c = kind.is_planar ? plane : i % side_by_side;
      const bool is_inside = x + i / side_by_side < kTiffWidth && y + row < kTiffHeight;
      PackSample(is_inside ? SampleAt(kind, x + i / side_by_side, y + row, c) : 0, kind.bits, static_cast<size_t>(i),
                 packed);
    }
    block.insert(block.end(), packed.begin(), packed.end());
  }
  return block;
}

class TiffFormats : public DataTest {
 protected:
  void Page(TIFF* tiff, const TiffKind& kind) const {
    constexpr int kTile = 16;
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, kTiffWidth);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, kTiffHeight);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, kind.bits);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, kind.samples);
    TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, kind.format);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, kind.light);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, kind.compression);
    TIFFSetField(tiff, TIFFTAG_ORIENTATION, kind.orientation);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, kind.is_planar ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
    const int colors = kind.light == PHOTOMETRIC_RGB ? 3 : kind.light == PHOTOMETRIC_SEPARATED ? 4 : 1;
    const uint16_t transparency = EXTRASAMPLE_UNASSALPHA;
    if (kind.samples > colors) TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &transparency);
    if (kind.light == PHOTOMETRIC_PALETTE) {
      const size_t count = size_t{1} << static_cast<unsigned>(kind.bits);
      std::array<std::vector<uint16_t>, 3> map;
      for (size_t c = 0; c < 3; ++c) {
        for (size_t i = 0; i < count; ++i) map.at(c).push_back(static_cast<uint16_t>(PaletteByte(i, c) * 257));
      }
      TIFFSetField(tiff, TIFFTAG_COLORMAP, map[0].data(), map[1].data(), map[2].data());
    }
    const int planes = kind.is_planar ? kind.samples : 1;
    if (kind.is_tiled) {
      TIFFSetField(tiff, TIFFTAG_TILEWIDTH, kTile);
      TIFFSetField(tiff, TIFFTAG_TILELENGTH, kTile);
      for (int plane = 0; plane < planes; ++plane) {
        for (int y = 0; y < kTiffHeight; y += kTile) {
          for (int x = 0; x < kTiffWidth; x += kTile) {
            std::vector<uint8_t> block = PackedBlock(kind, x, y, kTile, kTile, plane);
            TIFFWriteTile(tiff, block.data(), static_cast<uint32_t>(x), static_cast<uint32_t>(y), 0,
                          static_cast<uint16_t>(plane));
          }
        }
      }
    } else {
      TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, kind.rows_a_strip);
      for (int plane = 0; plane < planes; ++plane) {
        for (int y = 0; y < kTiffHeight; ++y) {
          std::vector<uint8_t> row = PackedBlock(kind, 0, y, kTiffWidth, 1, plane);
          TIFFWriteScanline(tiff, row.data(), static_cast<uint32_t>(y), static_cast<uint16_t>(plane));
        }
      }
    }
    TIFFWriteDirectory(tiff);
  }

  std::string File(const std::vector<TiffKind>& pages) const {
    const std::filesystem::path path = At("picture.tif");
    TIFF* tiff = TIFFOpen(path.c_str(), pages[0].mode);
    for (const TiffKind& page : pages) Page(tiff, page);
    TIFFClose(tiff);
    return ReadFile(path);
  }

  static uint8_t PaletteByte(size_t index, size_t c) { return static_cast<uint8_t>(index * 31 + c * 77 + 5); }

  // Returns the pixel's values, B,G,R or grey: of 16 bits, libtiff takes grey's upper ones and rounds colours.
  static std::vector<uint8_t> PixelAt(const TiffKind& kind, int x, int y) {
    const auto byte = [&](int c) {
      const uint32_t most = (1U << static_cast<unsigned>(kind.bits)) - 1;
      if (kind.bits == 16 && kind.light != PHOTOMETRIC_RGB) return static_cast<uint8_t>(SampleAt(kind, x, y, c) >> 8U);
      return static_cast<uint8_t>((SampleAt(kind, x, y, c) * 255 + most / 2) / most);
    };
    if (kind.light == PHOTOMETRIC_MINISBLACK) return {byte(0)};
    if (kind.light == PHOTOMETRIC_MINISWHITE) return {static_cast<uint8_t>(255 - byte(0))};
    if (kind.light == PHOTOMETRIC_RGB) return {byte(2), byte(1), byte(0)};
    const size_t index = SampleAt(kind, x, y, 0);
    return {PaletteByte(index, 2), PaletteByte(index, 1), PaletteByte(index, 0)};
  }
};

TEST_F(TiffFormats, EveryKindKeepsItsPixels) {
  std::vector<TiffKind> kinds;
  for (const int bits : {1, 2, 4, 8, 16}) {
    kinds.push_back({.bits = bits});
    kinds.push_back({.bits = bits, .light = PHOTOMETRIC_MINISWHITE});
    if (bits < 16) kinds.push_back({.bits = bits, .light = PHOTOMETRIC_PALETTE});
  }
  for (const int bits : {8, 16}) {
    for (const bool is_tiled : {false, true}) {
      for (const bool is_planar : {false, true}) {
        kinds.push_back({.bits = bits,
                         .samples = 3,
                         .light = PHOTOMETRIC_RGB,
                         .compression = COMPRESSION_LZW,
                         .is_tiled = is_tiled,
                         .is_planar = is_planar});
        // libtiff 4.5 refuses planes of plain tiles.
        const bool is_packed = is_tiled && is_planar;
        kinds.push_back({.bits = bits,
                         .samples = 4,
                         .light = PHOTOMETRIC_RGB,
                         .compression = is_packed ? COMPRESSION_LZW : COMPRESSION_NONE,
                         .is_tiled = is_tiled,
                         .is_planar = is_planar});
      }
    }
  }
  for (const int compression : {COMPRESSION_PACKBITS, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_LZMA, COMPRESSION_ZSTD}) {
    kinds.push_back({.samples = 3, .light = PHOTOMETRIC_RGB, .compression = compression, .rows_a_strip = kTiffHeight});
  }
  kinds.push_back({.samples = 2});  // grey with transparency
  for (const char* mode : {"wb", "w8", "wl"})
    kinds.push_back({.bits = 16, .samples = 3, .light = PHOTOMETRIC_RGB, .mode = mode});
  for (size_t i = 0; i < kinds.size(); ++i) {
    const TiffKind& kind = kinds[i];
    SCOPED_TRACE(StrCat("kind ", i, ": ", kind.bits, " bits, ", kind.samples, " samples, light ", kind.light,
                        ", compression ", kind.compression, kind.is_tiled ? ", tiles" : "",
                        kind.is_planar ? ", planes" : ""));
    const std::string file = File({kind});
    EXPECT_EQ(ReadImageHeader(file).width, kTiffWidth);
    EXPECT_EQ(ReadImageHeader(file).height, kTiffHeight);
    FormatRead read;
    ASSERT_NO_THROW(read = ReadPicture(file));
    const auto channels = static_cast<int64_t>(PixelAt(kind, 0, 0).size());
    ASSERT_EQ(read.image.channels, channels);
    std::vector<uint8_t> expected;
    for (int y = 0; y < kTiffHeight; ++y) {
      for (int x = 0; x < kTiffWidth; ++x) {
        for (const uint8_t byte : PixelAt(kind, x, y)) expected.push_back(byte);
      }
    }
    EXPECT_EQ(read.image.pixels, expected);
    ImageLosses losses;
    if (kind.bits == 16) losses |= Losses({ImageLoss::kDepth});
    if (kind.samples == 2 || kind.samples == 4) losses |= Losses({ImageLoss::kTransparency});
    EXPECT_EQ(read.losses, losses);
  }
}

TEST_F(TiffFormats, PagesOrientationsAndInksAreToldOrApplied) {
  const TiffKind color{.samples = 3, .light = PHOTOMETRIC_RGB};
  const FormatRead one = ReadPicture(File({color}));
  EXPECT_TRUE(one.losses.none());
  const FormatRead two = ReadPicture(File({color, {.bits = 1}}));
  EXPECT_EQ(two.losses, Losses({ImageLoss::kPages}));
  EXPECT_EQ(two.image.pixels, one.image.pixels);
  TiffKind turned = color;
  for (int tag = 1; tag <= 8; ++tag) {
    turned.orientation = tag;
    const std::string file = File({turned});
    Image upright = one.image;
    ApplyOrientation(tag, upright);
    const FormatRead read = ReadPicture(file);
    EXPECT_EQ(read.image.width, upright.width) << tag;
    EXPECT_EQ(read.image.pixels, upright.pixels) << tag;
    EXPECT_EQ(ReadPicture(file, {.orientation = DecodeOptions::Orientation::kAsStored}).image.pixels, one.image.pixels);
  }
  EXPECT_EQ(ReadPicture(File({{.samples = 4, .light = PHOTOMETRIC_SEPARATED}})).losses, Losses({ImageLoss::kInks}));
  const Image gray = ReadPicture(File({color}), {.channels = ImageChannels::kGray}).image;
  EXPECT_EQ(gray.channels, 1);
}

TEST_F(TiffFormats, ImportsCountWhatPicturesLoseAndWhatIsLeftOut) {
  const TiffKind color{.samples = 3, .light = PHOTOMETRIC_RGB};
  Write("set/a/one.tif", File({color}));
  Write("set/a/pages.tif", File({color, color}));
  Write("set/b/deep.jpg", File({{.bits = 16}}));  // what a name says is nothing to its reader
  Write("set/b/phone.HEIC", "x");
  const ImportReport report = ImportFolder(At("set"), At("db"), {});
  EXPECT_EQ(report.records, 3);
  EXPECT_THAT(
      report.warnings,
      testing::ElementsAre(
          StartsWith("grey pictures are among coloured ones"),
          "read in part, pictures of more than 8 bits a sample, of which the upper 8 are kept: 1 (b/deep.jpg)",
          "read in part, pictures of several pages, of which the first is taken: 1 (a/pages.tif)",
          StrCat("left out, HEIC files, a format that is not read: 1 (", At("set/b/phone.HEIC").string(), ")")));
}

TEST_F(TiffFormats, NumbersThatAreNoLightAreRefused) {
  EXPECT_THAT(
      PictureError(File({{.bits = 32, .format = SAMPLEFORMAT_IEEEFP}})),
      HasSubstr("its samples of 32 bits are floating-point numbers, expected numbers from 0 on of 1, 2, 4, 8 or 16"));
  EXPECT_THAT(PictureError(File({{.bits = 16, .format = SAMPLEFORMAT_INT}})), HasSubstr("numbers with a sign"));
  EXPECT_THAT(PictureError(File({{.bits = 32}})), HasSubstr("its samples have 32 bits"));
}

TEST_F(TiffFormats, CutAndDamagedFilesAreRefusedAndNeverCrash) {
  std::vector<std::string> files;
  for (const bool is_tiled : {false, true}) {
    files.push_back(
        File({{.samples = 3, .light = PHOTOMETRIC_RGB, .compression = COMPRESSION_LZW, .is_tiled = is_tiled}}));
  }
  files.push_back(File({{.bits = 4, .light = PHOTOMETRIC_PALETTE, .compression = COMPRESSION_PACKBITS}}));
  EXPECT_THAT(PictureError(files[0].substr(0, 200)), testing::Not(testing::IsEmpty()));
  ExpectDamagedAreDecodedOrRefused(files, 3000, true, RandomStream(12, 5));
}

TEST(PnmFormats, EveryKindKeepsItsPixels) {
  const auto pixels = [](std::string_view file) { return ReadPicture(file).image.pixels; };
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(pixels("P1\n# ink is 1\n3 2\n1 0 1\n010"), (Bytes{0, 255, 0, 255, 0, 255}));
  EXPECT_EQ(pixels("P4 3 2\n\xA0\x40"sv), (Bytes{0, 255, 0, 255, 0, 255}));
  EXPECT_EQ(pixels("P2 2 1 255 7 200"), (Bytes{7, 200}));
  EXPECT_EQ(pixels("P2 3 1 15\n0 7\n15 "), (Bytes{0, 119, 255}));
  EXPECT_EQ(pixels("P5 2 1 255\n\x07\xC8"sv), (Bytes{7, 200}));
  EXPECT_EQ(pixels("P3 1 2 255 1 2 3 4 5 6"), (Bytes{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(pixels("P6\n1 2\n255\n\x01\x02\x03\x04\x05\x06"sv), (Bytes{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(pixels("P5 2 1 65535\n\x80\x80\xFF\xFF"sv), (Bytes{128, 255}));
  EXPECT_EQ(ReadPicture("P5 2 1 65535\n\x80\x80\xFF\xFF"sv).losses, Losses({ImageLoss::kDepth}));
  EXPECT_EQ(ReadPicture("P5 1 1 255\n\x01P5 1 1 255\n\x02"sv).losses, Losses({ImageLoss::kPages}));
  EXPECT_TRUE(ReadPicture("P5 1 1 255\n\x01\n"sv).losses.none());
  const ImageHeader header = ReadImageHeader("P6 640#wide\n480 255\n");
  EXPECT_EQ(header.width, 640);
  EXPECT_EQ(header.height, 480);
}

TEST(PnmFormats, WhatIsCutOrOutOfRangeIsRefused) {
  EXPECT_EQ(PictureError("P5 2 2 255\n\x01\x02\x03"sv), "cannot decode the PNM: the file ends after 3 of 4 samples");
  EXPECT_EQ(PictureError("P2 2 2 255\n1 2 3"), "cannot decode the PNM: the file ends after 3 of 4 samples");
  EXPECT_EQ(PictureError("P2 2 1 255\n1 256"), "cannot decode the PNM: byte 13 begins no sample of 0 to 255");
  EXPECT_EQ(PictureError("P5 2 1 15\n\x01\x10"sv),
            "cannot decode the PNM: byte 11 begins a sample of 16, above the file's 15");
  EXPECT_THAT(PictureError("P5 2 1 0\n\x01\x10"sv), HasSubstr("header gives no size"));
  EXPECT_THAT(PictureError("P5 2 70000000000000 255\n"), HasSubstr("header gives no size"));
  EXPECT_THAT(PictureError("P5 1000000 1000000 255\n"), HasSubstr("the limit is"));
  const Image half = ReadPicture("P5 2 2 255\n\x01\x02\x03"sv, {.damage = DecodeOptions::Damage::kLenient}).image;
  EXPECT_EQ(half.pixels, (std::vector<uint8_t>{1, 2, 3, 0}));
}

TEST(UnreadFormats, AreNamedByTheirBytes) {
  const std::pair<std::string_view, std::string_view> files[] = {
      {"\0\0\0\x1C"
       "ftypheic\0\0\0\0"sv,
       "HEIC"},
      {"\0\0\0\x1C"
       "ftypavif\0\0\0\0"sv,
       "AVIF"},
      {"\0\0\0\x1C"
       "ftypisom\0\0\0\0"sv,
       "a video"},
      {"\0\0\0\x0CJXL \r\n"sv, "JPEG XL"},
      {"\0\0\0\x0CjP  \r\n"sv, "JPEG 2000"},
      {"<?xml version=\"1.0\"?>\n<svg width=\"3\">", "SVG"},
      {"\n<!DOCTYPE HTML><html>", "a web page in the file's place"},
      {"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS in the file's place"},
      {"8BPS\0\x01"sv, "Photoshop"},
      {"II*\0\x10\0\0\0CR\x02\0"sv, ""},
  };
  for (const auto& [file, name] : files) {
    EXPECT_EQ(UnreadFormatOf(file), name);
    if (!name.empty()) {
      EXPECT_THAT(PictureError(file), HasSubstr(StrCat(" but ", name, ", which is not read")));
    }
  }
  EXPECT_THAT(PictureError("II*\0\x10\0\0\0CR\x02\0"sv), StartsWith("a camera's raw file"));
  EXPECT_EQ(UnreadFormatOfName("a/IMG_1.HEIC"), "HEIC");
  EXPECT_EQ(UnreadFormatOfName("a.b/c"), "");
  EXPECT_EQ(UnreadFormatOfName("x.png"), "");
}

}  // namespace
}  // namespace moka
