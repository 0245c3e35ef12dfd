// Windows and scaled decoding against the whole picture's pixels, and files cut at any place.
#include "data/image/jpeg_reader.h"

#include <turbojpeg.h>

#include "core/rng.h"
#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

// Noise over a gradient: neighbouring pixels differ in every channel.
Image Busy(int64_t width, int64_t height) {
  Image image = Gradient(width, height, 3);
  RandomStream random(9, 9);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>((value + random.Below(90)) % 256);
  return image;
}

std::string Compressed(const Image& image, int sampling, int flags = 0) {
  tjhandle handle = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's type
  EXPECT_EQ(tjCompress2(handle, image.pixels.data(), static_cast<int>(image.width), 0, static_cast<int>(image.height),
                        TJPF_BGR, &bytes, &size, sampling, 90, flags),
            0);
  std::string jpeg(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(handle);
  return jpeg;
}

constexpr std::array<int, 5> kSamplings = {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_GRAY};

Image Whole(const std::string& file, int divisor, bool gray) {
  JpegReader reader;
  const JpegReader::Header header = reader.Open(file, DecodeOptions::Damage::kStrict);
  Image image;
  reader.Read({0, 0, ScaledSide(header.width, divisor), ScaledSide(header.height, divisor)}, divisor, gray, image);
  return image;
}

// Asserts that the window's pixels are those of the whole.
void ExpectWindow(const ImageWindow& window, const Image& whole, const ImageWindow& read, const Image& part,
                  const std::string& what) {
  ASSERT_LE(read.x, window.x) << what;
  ASSERT_LE(read.y, window.y) << what;
  ASSERT_EQ(read.width, part.width) << what;
  for (int64_t y = 0; y < window.height; ++y) {
    const uint8_t* expected = whole.pixels.data() + ((window.y + y) * whole.width + window.x) * whole.channels;
    const uint8_t* found =
        part.pixels.data() + ((window.y - read.y + y) * part.width + window.x - read.x) * part.channels;
    ASSERT_TRUE(std::equal(expected, expected + window.width * whole.channels, found)) << what << ", row " << y;
  }
}

TEST(JpegReader, WindowsHoldThePixelsOfTheWholePicture) {
  RandomStream random(3, 4);
  JpegReader reader;  // one for all
  for (const int sampling : kSamplings) {
    for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
      const std::string file = Compressed(Busy(131, 97), sampling, flags);
      for (const int divisor : {1, 2, 4, 8}) {
        const bool gray = sampling == TJSAMP_GRAY || random.Below(4) == 0;
        const Image whole = Whole(file, divisor, gray);
        for (int i = 0; i < 40; ++i) {
          ImageWindow window;
          window.width = 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(whole.width)));
          window.height = 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(whole.height)));
          window.x = static_cast<int64_t>(random.Below(static_cast<uint64_t>(whole.width - window.width + 1)));
          window.y = static_cast<int64_t>(random.Below(static_cast<uint64_t>(whole.height - window.height + 1)));
          const JpegReader::Header header = reader.Open(file, DecodeOptions::Damage::kStrict);
          EXPECT_EQ(header.width, 131);
          EXPECT_EQ(header.height, 97);
          EXPECT_EQ(header.is_gray, sampling == TJSAMP_GRAY);
          Image part;
          const ImageWindow read = reader.Read(window, divisor, gray, part);
          ExpectWindow(window, whole, read, part,
                       StrCat("sampling ", sampling, " flags ", flags, " 1/", divisor, " window ", window.x, ",",
                              window.y, " ", window.width, "x", window.height));
        }
      }
    }
  }
}

TEST(JpegReader, CutOffFilesAreFoundWhateverTheWindow) {
  const std::string file = Compressed(Busy(160, 120), TJSAMP_420);
  const std::string cut = file.substr(0, file.size() * 9 / 10);
  JpegReader reader;
  Image part;
  reader.Open(cut, DecodeOptions::Damage::kStrict);
  EXPECT_THAT(ErrorOf([&] { reader.Read({0, 0, 30, 10}, 1, false, part); }), testing::HasSubstr("Premature end"));
  reader.Open(cut, DecodeOptions::Damage::kLenient);
  EXPECT_EQ(reader.Read({0, 0, 30, 10}, 1, false, part).height, 10);
  reader.Open(file, DecodeOptions::Damage::kStrict);  // after a failure
  EXPECT_EQ(reader.Read({0, 0, 30, 10}, 1, false, part).height, 10);
  const std::string padded = file + std::string(100, '\0');
  reader.Open(padded, DecodeOptions::Damage::kStrict);
  EXPECT_EQ(reader.Read({8, 100, 30, 20}, 1, false, part).height, 20);
}

TEST(ImageDecoder, WindowsAreDecodedAtTheSizeTheyNeed) {
  const Image image = Busy(400, 300);
  const std::string file = Compressed(image, TJSAMP_420);
  ImageDecoder decoder;
  const auto part = [&](const ImageWindow& window, int64_t side) {
    const ImageSize size = decoder.Open(file, {});
    EXPECT_EQ(size.width, 400);
    EXPECT_EQ(size.height, 300);
    EXPECT_EQ(size.channels, 3);
    return decoder.DecodeWindow(window, side, side);
  };
  EXPECT_DOUBLE_EQ(part({40, 20, 200, 210}, 101).box.width, 200);
  EXPECT_DOUBLE_EQ(part({40, 20, 200, 210}, 100).box.width, 100);
  EXPECT_DOUBLE_EQ(part({41, 21, 202, 203}, 50).box.height, 203.0 / 4);
  const ImageDecoder::Part eighth = part({0, 0, 400, 300}, 10);
  EXPECT_EQ(eighth.image->width, 50);
  EXPECT_EQ(eighth.image->height, 38);
}

// A window of the upright picture, whatever the file's orientation.
TEST(ImageDecoder, WindowsOfTurnedPicturesAreUpright) {
  const Image image = Busy(64, 40);
  std::string file = Compressed(image, TJSAMP_444);
  std::string exif(
      "\xFF\xE1\0\x22"
      "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
      36);
  file.insert(2, exif);
  Image upright;
  ImageDecoder decoder;
  decoder.Decode(file, {}, upright);
  ASSERT_EQ(upright.width, 40);
  const ImageSize size = decoder.Open(file, {});
  EXPECT_EQ(size.width, 40);
  EXPECT_EQ(size.height, 64);
  const ImageDecoder::Part part = decoder.DecodeWindow({3, 50, 20, 10}, 5, 5);
  EXPECT_EQ(part.image->pixels, upright.pixels);
  EXPECT_DOUBLE_EQ(part.box.y, 50);
}

}  // namespace
}  // namespace moka
