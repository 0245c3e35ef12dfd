// Every format and bit depth against OpenCV's pixels, orientation, and damaged files.
#include "data/image/image.h"

#include <turbojpeg.h>
#include <zlib.h>

#include <iomanip>
#include <map>
#include <sstream>

#include "core/rng.h"
#include "core/text.h"
#include "data/labels/sample_writing.h"
#include "tests/data/data_fixture.h"
#include "tests/data/image/damaged_pictures.h"

namespace moka {
namespace {

Image Decoded(std::string_view file, const DecodeOptions& options = {}) {
  ImageDecoder decoder;
  Image image;
  decoder.Decode(file, options, image);
  return image;
}

std::string DecodeError(std::string_view file, const DecodeOptions& options = {}) {
  return ErrorOf([&] { Decoded(file, options); });
}

// A file that tests/golden/images.py wrote.
std::string Golden(const std::string& name) {
  const std::string path = StrCat(MOKA_SOURCE_DIR, "/tests/data/images/", name);
  std::ifstream stream(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  EXPECT_FALSE(bytes.empty()) << path;
  return bytes;
}

std::string CrcText(const Image& image) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(8)
       << crc32(0, image.pixels.data(), static_cast<uInt>(image.pixels.size()));
  return text.str();
}

// A JPEG with an EXIF block that holds nothing but the orientation.
std::string WithOrientation(const std::string& jpeg, int tag) {
  std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 24);
  exif += static_cast<char>(tag);
  exif += std::string("\0\0\0\0\0\0\0", 7);
  std::string segment("\xFF\xE1\0", 3);
  segment += static_cast<char>(exif.size() + 2);
  return jpeg.substr(0, 2) + segment + exif + jpeg.substr(2);
}

std::string CmykJpeg(int side, uint8_t c, uint8_t m, uint8_t y, uint8_t k) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < side * side; ++i) pixels.insert(pixels.end(), {c, m, y, k});
  tjhandle handle = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's type
  EXPECT_EQ(tjCompress2(handle, pixels.data(), side, 0, side, TJPF_CMYK, &bytes, &size, TJSAMP_444, 95, 0), 0);
  std::string jpeg(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(handle);
  return jpeg;
}

TEST(Image, EveryKindDecodesAsOpenCvDoes) {
  const std::map<std::string, ImageChannels> modes = {
      {"stored", ImageChannels::kAsStored}, {"color", ImageChannels::kColor}, {"grey", ImageChannels::kGray}};
  std::istringstream table(Golden("decoded.txt"));
  std::string name;
  std::string mode;
  std::string crc;
  Image expected;
  int lines = 0;
  ImageDecoder decoder;
  Image image;  // one for all, so that nothing of the picture before may show
  while (table >> name >> mode >> expected.width >> expected.height >> expected.channels >> crc) {
    const std::string file = Golden(name);
    for (const auto damage : {DecodeOptions::Damage::kStrict, DecodeOptions::Damage::kLenient}) {
      decoder.Decode(file, {.channels = modes.at(mode), .damage = damage}, image);
      EXPECT_EQ(image.width, expected.width) << name << " " << mode;
      EXPECT_EQ(image.height, expected.height) << name << " " << mode;
      EXPECT_EQ(image.channels, expected.channels) << name << " " << mode;
      EXPECT_EQ(CrcText(image), crc) << name << " " << mode;
    }
    ++lines;
  }
  EXPECT_EQ(lines, 126);
}

TEST(Image, PngKeepsEveryPixel) {
  for (const int64_t channels : {1, 3}) {
    const Image image = Gradient(33, 21, channels);
    const Image back = Decoded(EncodePng(image));
    EXPECT_EQ(back.width, 33);
    EXPECT_EQ(back.height, 21);
    EXPECT_EQ(back.pixels, image.pixels);
  }
}

TEST(Image, BmpAndWebpHeadersGiveTheSize) {
  for (const char* name : {"bgr24.bmp", "bgr24_from_top.bmp", "short_header.bmp", "lossless.webp"}) {
    const ImageHeader header = ReadImageHeader(Golden(name));
    EXPECT_EQ(header.width, 21) << name;
    EXPECT_EQ(header.height, 13) << name;
  }
  for (const char* name : {"lossy.webp", "transparent.webp", "animation.webp"}) {
    const ImageHeader header = ReadImageHeader(Golden(name));
    EXPECT_EQ(header.width, 61) << name;
    EXPECT_EQ(header.height, 47) << name;
  }
}

TEST(Image, DeepAndTransparentPngsBecomeEightBitColor) {
  const Image plain = Decoded(Golden("rgb8.png"));
  ASSERT_EQ(plain.channels, 3);
  EXPECT_EQ(Decoded(Golden("rgba8.png")).pixels, plain.pixels);  // the same colours, whatever their alpha
  const Image deep = Decoded(Golden("rgb16.png"));
  EXPECT_EQ(Decoded(Golden("rgba16.png")).pixels, deep.pixels);
  EXPECT_EQ(deep.pixels.size(), plain.pixels.size());
}

TEST(Image, ForcedChannelsConvert) {
  const std::string color = EncodeJpeg(Gradient(16, 16, 3));
  const std::string gray = EncodePng(Gradient(16, 16, 1));
  EXPECT_EQ(Decoded(color, {.channels = ImageChannels::kGray}).channels, 1);
  const Image spread = Decoded(gray, {.channels = ImageChannels::kColor});
  ASSERT_EQ(spread.channels, 3);
  EXPECT_EQ(spread.pixels[3], spread.pixels[5]);
}

TEST(Image, CmykJpegBecomesColor) {
  const Image image = Decoded(CmykJpeg(16, 255, 128, 0, 255));  // stored inverted: full red, half green, no blue
  ASSERT_EQ(image.channels, 3);
  EXPECT_NEAR(image.pixels[0], 0, 3);
  EXPECT_NEAR(image.pixels[1], 128, 3);
  EXPECT_NEAR(image.pixels[2], 255, 3);
  EXPECT_EQ(Decoded(CmykJpeg(16, 255, 128, 0, 255), {.channels = ImageChannels::kGray}).channels, 1);
}

// Decoders multiply the inks with different rounding.
TEST(Image, CmykJpegIsNearOpenCvs) {
  const Image image = Decoded(Golden("cmyk.jpg"));
  const std::string expected = Golden("cmyk.bgr");
  ASSERT_EQ(image.pixels.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(image.pixels[i], static_cast<uint8_t>(expected[i]), 2) << i;
  }
}

TEST(Image, ExifOrientationStandsUpright) {
  // Stored 2x1: pixels a, b. Where 'a' comes to stand for each tag.
  const Image stored{.width = 2, .height = 1, .channels = 1, .pixels = {10, 20}};
  const auto turned = [&](int tag) {
    Image image = stored;
    ApplyOrientation(tag, image);
    return image;
  };
  for (const int tag : {1, 4}) EXPECT_THAT(turned(tag).pixels, testing::ElementsAre(10, 20));
  for (const int tag : {2, 3}) EXPECT_THAT(turned(tag).pixels, testing::ElementsAre(20, 10));
  for (const int tag : {5, 6}) EXPECT_THAT(turned(tag).pixels, testing::ElementsAre(10, 20)) << tag;
  for (const int tag : {7, 8}) EXPECT_THAT(turned(tag).pixels, testing::ElementsAre(20, 10)) << tag;
  EXPECT_EQ(turned(6).height, 2);
  const Image column{.width = 1, .height = 2, .channels = 1, .pixels = {10, 20}};
  Image six = column;  // a quarter turn clockwise: the upper pixel comes to the right
  ApplyOrientation(6, six);
  EXPECT_THAT(six.pixels, testing::ElementsAre(20, 10));
  Image eight = column;
  ApplyOrientation(8, eight);
  EXPECT_THAT(eight.pixels, testing::ElementsAre(10, 20));
}

TEST(Image, ExifOrientationIsAppliedToJpegs) {
  const std::string jpeg = EncodeJpeg(Gradient(40, 20, 3));
  for (int tag = 1; tag <= 8; ++tag) {
    const std::string tagged = WithOrientation(jpeg, tag);
    ASSERT_EQ(ExifOrientation(tagged), tag);
    Image expected = Decoded(jpeg);
    ApplyOrientation(tag, expected);
    const Image image = Decoded(tagged);
    EXPECT_EQ(image.width, tag >= 5 ? 20 : 40);
    EXPECT_EQ(image.pixels, expected.pixels);
    EXPECT_EQ(Decoded(tagged, {.orientation = DecodeOptions::Orientation::kAsStored}).pixels, Decoded(jpeg).pixels);
  }
  EXPECT_EQ(ExifOrientation(WithOrientation(jpeg, 9)), 1);
  EXPECT_EQ(ExifOrientation(WithOrientation(jpeg, 6).substr(0, 30)), 1);
}

// The TIFF block of an orientation.
std::string OrientationBlock(int tag) {
  std::string block("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18);
  block += static_cast<char>(tag);
  return block + std::string("\0\0\0\0\0\0\0", 7);
}

// The PNG with an eXIf chunk behind its header or, as `at` says, elsewhere.
std::string PngWithBlock(const std::string& png, const std::string& block, size_t at) {
  const std::string body = "eXIf" + block;
  const auto sum =
      static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
  const auto big = [](size_t number) {
    std::string text;
    for (int k = 24; k >= 0; k -= 8) text += static_cast<char>(number >> static_cast<unsigned>(k) & 0xFFU);
    return text;
  };
  return png.substr(0, at) + big(block.size()) + body + big(sum) + png.substr(at);
}

// A lossless WebP in the extended form, with an EXIF chunk.
std::string WebpWithBlock(const std::string& webp, const std::string& block, const Image& shown) {
  const auto little = [](size_t number, int bytes) {
    std::string text;
    for (int k = 0; k < bytes; ++k) text += static_cast<char>(number >> static_cast<unsigned>(8 * k) & 0xFFU);
    return text;
  };
  const std::string head = "VP8X" + little(10, 4) + little(0x08, 4) + little(static_cast<size_t>(shown.width - 1), 3) +
                           little(static_cast<size_t>(shown.height - 1), 3);
  const std::string padded = block.size() % 2 == 0 ? block : block + std::string(1, '\0');
  const std::string rest = "WEBP" + head + webp.substr(12) + "EXIF" + little(block.size(), 4) + padded;
  return "RIFF" + little(rest.size(), 4) + rest;
}

TEST(Image, ExifOrientationIsAppliedToPngsAndWebps) {
  const std::string png = EncodePng(Gradient(40, 20, 3));
  const std::string webp = Golden("lossless.webp");
  constexpr size_t kBehindHeader = 33;
  const size_t before_end = png.size() - 12;
  const auto expect_turned = [](const std::string& file, const Image& stored, int tag) {
    ASSERT_EQ(ExifOrientation(file), tag);
    Image expected = stored;
    ApplyOrientation(tag, expected);
    const Image image = Decoded(file);
    EXPECT_EQ(image.width, expected.width) << tag;
    EXPECT_EQ(image.pixels, expected.pixels) << tag;
    EXPECT_EQ(Decoded(file, {.orientation = DecodeOptions::Orientation::kAsStored}).pixels, stored.pixels);
    for (size_t bytes = 0; bytes < file.size(); bytes += 7) EXPECT_LE(ExifOrientation(file.substr(0, bytes)), 8);
  };
  for (int tag = 1; tag <= 8; ++tag) {
    const std::string block = OrientationBlock(tag);
    for (const size_t at : {kBehindHeader, before_end}) expect_turned(PngWithBlock(png, block, at), Decoded(png), tag);
    for (const std::string& exif : {block, std::string("Exif\0\0", 6) + block})
      expect_turned(WebpWithBlock(webp, exif, Decoded(webp)), Decoded(webp), tag);
  }
  EXPECT_EQ(ExifOrientation(png), 1);
  EXPECT_EQ(ExifOrientation(webp), 1);
  const std::string mask = EncodePng(Gradient(4, 2, 1));
  EXPECT_EQ(ReadValueMask(PngWithBlock(mask, OrientationBlock(1), kBehindHeader)).width, 4);
  EXPECT_THAT(ErrorOf([&] { ReadValueMask(PngWithBlock(mask, OrientationBlock(6), kBehindHeader)); }),
              testing::HasSubstr("the mask is turned by its EXIF orientation 6"));
}

TEST(Image, HeaderBombsAreRefusedBeforeTheirPixelsExist) {
  std::string jpeg = EncodeJpeg(Gradient(8, 8, 3));
  const size_t frame = jpeg.find("\xFF\xC0");
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");  // 65500 x 65500
  EXPECT_EQ(DecodeError(jpeg), "the image claims 65500x65500 pixels, the limit is 67108864");
  std::string png = EncodePng(Gradient(8, 8, 3));
  png.replace(16, 8, std::string("\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF", 8));
  EXPECT_THAT(DecodeError(png), testing::HasSubstr("claims 2147483647x2147483647 pixels"));
  std::string bmp = Golden("bgr24.bmp");
  bmp.replace(18, 8, std::string("\xFF\xFF\xFF\x7F\x01\0\0\x80", 8));  // a negative height: rows from the top
  EXPECT_THAT(DecodeError(bmp), testing::HasSubstr("claims 2147483647x2147483647 pixels"));
  EXPECT_THAT(DecodeError(EncodeJpeg(Gradient(20, 10, 3)), {.pixel_limit = 199}), testing::HasSubstr("20x10 pixels"));
}

TEST(Image, TruncatedJpegIsAnErrorUnlessLenient) {
  const std::string jpeg = EncodeJpeg(Gradient(200, 200, 3));
  for (size_t bytes = 0; bytes < jpeg.size(); bytes += 37) {
    EXPECT_FALSE(DecodeError(std::string_view(jpeg).substr(0, bytes)).empty()) << bytes;
  }
  EXPECT_EQ(DecodeError(std::string_view(jpeg).substr(0, jpeg.size() - 100)),
            "cannot decode the JPEG: Premature end of JPEG file");
  const Image half =
      Decoded(std::string_view(jpeg).substr(0, jpeg.size() / 2), {.damage = DecodeOptions::Damage::kLenient});
  EXPECT_EQ(half.width, 200);
}

TEST(Image, TruncatedPngIsAnErrorUnlessLenient) {
  const Image whole = Gradient(100, 100, 3);
  const std::string png = EncodePng(whole);
  for (size_t bytes = 0; bytes + 4 < png.size(); bytes += bytes + 200 < png.size() ? 97 : 1) {
    EXPECT_FALSE(DecodeError(std::string_view(png).substr(0, bytes)).empty()) << bytes;
  }
  const std::string_view cut = std::string_view(png).substr(0, png.size() / 2);
  EXPECT_EQ(DecodeError(cut), "cannot decode the PNG: the file ends too early");
  const Image half = Decoded(cut, {.damage = DecodeOptions::Damage::kLenient});
  ASSERT_EQ(half.pixels.size(), whole.pixels.size());
  EXPECT_TRUE(std::equal(half.pixels.begin(), half.pixels.begin() + 40 * 300, whole.pixels.begin()));  // 40 rows
  EXPECT_EQ(half.pixels.back(), 0);
}

TEST(Image, TruncatedBmpsAndWebpsAreErrors) {
  for (const char* name : {"palette4.bmp", "bgr24_from_top.bmp", "bgr565.bmp", "runs4.bmp", "runs8.bmp", "lossy.webp",
                           "lossless.webp", "transparent.webp"}) {
    const std::string file = Golden(name);
    for (size_t bytes = 0; bytes + 4 < file.size(); bytes += 5) {
      EXPECT_FALSE(DecodeError(std::string_view(file).substr(0, bytes)).empty()) << name << " " << bytes;
    }
  }
  const std::string bmp = Golden("bgr24.bmp");
  const std::string_view cut = std::string_view(bmp).substr(0, bmp.size() - 100);
  EXPECT_EQ(DecodeError(cut), "cannot decode the BMP: its pixels end at byte 886, the file at 786");
  const Image most = Decoded(cut, {.damage = DecodeOptions::Damage::kLenient});
  EXPECT_EQ(most.pixels[0], 0);  // the upper rows come last
  EXPECT_EQ(most.pixels.back(), Decoded(bmp).pixels.back());
  EXPECT_EQ(DecodeError(std::string_view(Golden("lossless.webp")).substr(0, 100)),
            "cannot decode the WebP: the file ends too early");
}

TEST(Image, WrongChecksumsOfPixelsAreErrorsUnlessLenient) {
  std::string png = Golden("rgb8.png");
  const size_t end = png.rfind("IDAT");
  const size_t crc = png.size() - 12 - 4;  // the last chunk of pixels stands before IEND
  ASSERT_LT(end, crc);
  png[crc] = static_cast<char>(png[crc] ^ 1);
  EXPECT_EQ(DecodeError(png), "cannot decode the PNG: invalid chunk checksum");
  EXPECT_EQ(CrcText(Decoded(png, {.damage = DecodeOptions::Damage::kLenient})), "700e4e95");
  std::string text = Golden("rgb8.png");
  const size_t letter = text.find("small");
  text[letter] = 'S';  // nothing that a pixel depends on
  EXPECT_EQ(CrcText(Decoded(text)), "700e4e95");
}

TEST(Image, WhatIsNotSupportedIsNamed) {
  EXPECT_EQ(DecodeError(Golden("animation.webp")), "cannot decode the WebP: it is an animation, expected one picture");
  std::string bmp = Golden("bgr24.bmp");
  bmp[30] = 4;
  EXPECT_EQ(DecodeError(bmp), "cannot decode the BMP: 24 bits a pixel with compression 4 are not supported");
  bmp = Golden("bgr24.bmp");
  bmp[14] = 20;
  EXPECT_EQ(DecodeError(bmp), "cannot decode the BMP: a header of 20 bytes is not supported");
  bmp = Golden("bgr24.bmp");
  bmp[10] = 0;
  EXPECT_EQ(DecodeError(bmp), "cannot decode the BMP: its pixels begin inside its header");
  std::string runs = Golden("runs8.bmp");
  runs[18] = 3;  // narrower than its runs
  EXPECT_THAT(DecodeError(runs), testing::StartsWith("cannot decode the BMP: a run leaves row 0"));
}

// A picture of 2x1 pixels, red and green, at 1,1 of a canvas of 4x3, whose background is blue.
std::string SmallGif() {
  return {
      "GIF89a\x04\0\x03\0\x91\x02\0"                     // four colours, the third is the background's
      "\xFF\0\0\0\xFF\0\0\0\xFF\0\0\0"                   // red, green, blue, black
      ",\x01\0\x01\0\x02\0\x01\0\0\x02\x02\x44\x0A\0;",  // clear, 0, 1, end
      41};
}

TEST(Image, GifsShowTheirFirstPictureOnTheCanvas) {
  const Image image = Decoded(SmallGif());
  ASSERT_EQ(image.width, 4);
  ASSERT_EQ(image.height, 3);
  std::vector<uint8_t> expected;
  for (int i = 0; i < 12; ++i) expected.insert(expected.end(), {255, 0, 0});
  std::ranges::copy(std::array<uint8_t, 6>{0, 0, 255, 0, 255, 0}, expected.begin() + 15);
  EXPECT_EQ(image.pixels, expected);
}

TEST(Image, DamagedGifsAreRefusedOrReadAsFarAsTheyGo) {
  std::string outside = SmallGif();
  outside[26] = 3;  // left
  EXPECT_EQ(DecodeError(outside), "cannot decode the GIF: its picture of 2x1 at 3,1 does not fit the canvas of 4x3");
  EXPECT_EQ(DecodeError(SmallGif().substr(0, 25) + ";"), "cannot decode the GIF: it holds no picture");
  const std::string whole = Golden("whole.gif");
  EXPECT_THAT(DecodeError(whole.substr(0, whole.size() / 2)), testing::StartsWith("cannot decode the GIF: "));
  const Image half = Decoded(whole.substr(0, whole.size() / 2), {.damage = DecodeOptions::Damage::kLenient});
  const Image all = Decoded(whole);
  EXPECT_TRUE(std::equal(all.pixels.begin(), all.pixels.begin() + 3 * 61 * 5, half.pixels.begin()));
  EXPECT_NE(all.pixels, half.pixels);
}

TEST(Image, UnknownFormatsAreNamed) {
  EXPECT_EQ(DecodeError("TIFF9a trailing"),
            "not a JPEG, PNG, BMP, WebP, GIF, TIFF or PNM image (15 bytes, the first are \"TIFF9a t\")");
  EXPECT_THAT(DecodeError(""), testing::HasSubstr("the file is empty"));
  EXPECT_THAT(DecodeError("\xFF\xD8\xFF\xD9"), testing::HasSubstr("header gives no size (0x0)"));
}

TEST(Image, DamagedFilesNeverCrash) {
  std::vector<std::string> files = {EncodeJpeg(Gradient(40, 30, 3)), EncodePng(Gradient(40, 30, 3))};
  for (const char* name : {"bgr24.bmp", "runs4.bmp", "runs8.bmp", "grey16_interlaced.png", "palette4_transparent.png",
                           "lossy.webp", "lossless.webp", "whole.gif", "interlaced.gif", "animation.gif"}) {
    files.push_back(Golden(name));
  }
  ExpectDamagedAreDecodedOrRefused(files, 6000, false, RandomStream(11, 3));
}

TEST(Image, ResizeWindowTakesOnlyTheWindow) {
  Image image = Gradient(40, 40, 1);
  std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{0});
  for (int64_t y = 10; y < 20; ++y) {
    for (int64_t x = 20; x < 30; ++x) image.pixels[static_cast<size_t>(y * 40 + x)] = 208;
  }
  Image small;
  ResizeWindow(image, {20, 10, 10, 10}, 4, 4, Interpolation::kArea, small);
  EXPECT_THAT(small.pixels, testing::Each(208));
  ResizeImage(image, 1, 1, Interpolation::kArea, small);
  EXPECT_EQ(small.pixels[0], 13);  // 100 of 1600 pixels at 208
}

}  // namespace
}  // namespace moka
