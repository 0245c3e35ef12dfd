#include "data/image.h"

#include <turbojpeg.h>

#include <opencv2/imgcodecs.hpp>

#include "core/rng.h"
#include "core/text.h"
#include "tests/data/data_fixture.h"

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

std::string Encoded(const char* extension, const cv::Mat& mat) {
  std::vector<uint8_t> bytes;
  EXPECT_TRUE(cv::imencode(extension, mat, bytes));
  return {bytes.begin(), bytes.end()};
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

TEST(Image, JpegDecodesAsOpenCvDoes) {
  for (const int64_t channels : {1, 3}) {
    const std::string jpeg = EncodeJpeg(Gradient(61, 47, channels), 80);
    const Image image = Decoded(jpeg);
    const cv::Mat expected = cv::imdecode(std::vector<uint8_t>(jpeg.begin(), jpeg.end()), cv::IMREAD_ANYCOLOR);
    ASSERT_EQ(image.channels, channels);
    ASSERT_EQ(image.pixels.size(), expected.total() * expected.elemSize());
    EXPECT_EQ(0, std::memcmp(image.pixels.data(), expected.data, image.pixels.size()));
  }
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
  const cv::Mat mat(13, 29, CV_8UC3, cv::Scalar(10, 20, 30));
  for (const char* extension : {".bmp", ".webp"}) {
    const std::string file = Encoded(extension, mat);
    const ImageHeader header = ReadImageHeader(file);
    EXPECT_EQ(header.width, 29) << extension;
    EXPECT_EQ(header.height, 13) << extension;
    EXPECT_EQ(Decoded(file).pixels.size(), 29U * 13 * 3) << extension;
  }
}

TEST(Image, DeepAndTransparentPngsBecomeEightBitColour) {
  const cv::Mat deep(5, 5, CV_16UC3, cv::Scalar(0x1234, 0x5678, 0x9ABC));
  EXPECT_THAT(Decoded(Encoded(".png", deep)).pixels[0], testing::Eq(0x12));
  const cv::Mat transparent(5, 5, CV_8UC4, cv::Scalar(10, 20, 30, 40));
  const Image image = Decoded(Encoded(".png", transparent));
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.pixels[2], 30);
}

TEST(Image, ForcedChannelsConvert) {
  const std::string colour = EncodeJpeg(Gradient(16, 16, 3));
  const std::string grey = EncodePng(Gradient(16, 16, 1));
  EXPECT_EQ(Decoded(colour, {.channels = ImageChannels::kGrey}).channels, 1);
  const Image spread = Decoded(grey, {.channels = ImageChannels::kColor});
  ASSERT_EQ(spread.channels, 3);
  EXPECT_EQ(spread.pixels[3], spread.pixels[5]);
}

TEST(Image, CmykJpegBecomesColour) {
  const Image image = Decoded(CmykJpeg(16, 255, 128, 0, 255));  // stored inverted: full red, half green, no blue
  ASSERT_EQ(image.channels, 3);
  EXPECT_NEAR(image.pixels[0], 0, 3);
  EXPECT_NEAR(image.pixels[1], 128, 3);
  EXPECT_NEAR(image.pixels[2], 255, 3);
  EXPECT_EQ(Decoded(CmykJpeg(16, 255, 128, 0, 255), {.channels = ImageChannels::kGrey}).channels, 1);
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

TEST(Image, HeaderBombsAreRefusedBeforeTheirPixelsExist) {
  std::string jpeg = EncodeJpeg(Gradient(8, 8, 3));
  const size_t frame = jpeg.find("\xFF\xC0");
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");  // 65500 x 65500
  EXPECT_EQ(DecodeError(jpeg), "the image claims 65500x65500 pixels, the limit is 67108864");
  std::string png = EncodePng(Gradient(8, 8, 3));
  png.replace(16, 8, std::string("\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF", 8));
  EXPECT_THAT(DecodeError(png), testing::HasSubstr("claims 2147483647x2147483647 pixels"));
  std::string bmp = Encoded(".bmp", cv::Mat(8, 8, CV_8UC3, cv::Scalar(1, 2, 3)));
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

TEST(Image, TruncatedPngIsAnError) {
  const std::string png = EncodePng(Gradient(100, 100, 3));
  for (size_t bytes = 0; bytes + 20 < png.size(); bytes += 97) {
    EXPECT_FALSE(DecodeError(std::string_view(png).substr(0, bytes)).empty()) << bytes;
  }
}

TEST(Image, UnknownFormatsAreNamed) {
  EXPECT_EQ(DecodeError("GIF89a trailing"),
            "not a JPEG, PNG, BMP or WebP image (15 bytes, the first are \"GIF89a t\")");
  EXPECT_THAT(DecodeError(""), testing::HasSubstr("0 bytes"));
  EXPECT_THAT(DecodeError("\xFF\xD8\xFF\xD9"), testing::HasSubstr("header gives no size (0x0)"));
}

TEST(Image, DamagedFilesNeverCrash) {
  RandomStream random(11, 3);
  const std::vector<std::string> files = {EncodeJpeg(Gradient(40, 30, 3)), EncodePng(Gradient(40, 30, 3)),
                                          Encoded(".bmp", cv::Mat(9, 9, CV_8UC3, cv::Scalar(1, 2, 3))),
                                          Encoded(".webp", cv::Mat(32, 32, CV_8UC3, cv::Scalar(1, 2, 3)))};
  ImageDecoder decoder;
  Image image;
  int good = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string file = files[static_cast<size_t>(i) % files.size()];
    for (int k = 0; k < 3; ++k) file[random.Below(file.size())] = static_cast<char>(random.Bits());
    try {
      decoder.Decode(file, {.pixel_limit = 1 << 16}, image);
      EXPECT_EQ(static_cast<int64_t>(image.pixels.size()), image.width * image.height * image.channels);
      ++good;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(good, 0);
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
