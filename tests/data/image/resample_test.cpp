// Resized parts against Pillow's, and the identities that weights must keep.
#include "data/image/resample.h"

#include <fstream>
#include <sstream>

#include "core/rng.h"
#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

// The picture of tests/golden/make_resample_goldens.py.
Image Picture() {
  Image image;
  image.Resize(61, 47, 3);
  for (int64_t y = 0; y < 47; ++y) {
    for (int64_t x = 0; x < 61; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        image.pixels[static_cast<size_t>((y * 61 + x) * 3 + c)] =
            static_cast<uint8_t>((7 * x + 13 * y + 50 * c + 3 * (x * y % 31)) % 256);
      }
    }
  }
  return image;
}

constexpr std::array<float, 3> kOnes = {1, 1, 1};
constexpr std::array<float, 3> kZeros = {0, 0, 0};

std::vector<float> Planes(const PixelView& pixels, const ResamplePart& part, bool mirror = false,
                          const float* factors = kOnes.data(), const float* summands = kZeros.data()) {
  std::vector<float> planes(static_cast<size_t>(pixels.channels * part.height * part.width), -1.0F);
  ResampleScratch scratch;
  ResampleToPlanes(pixels, part, {.factors = factors, .summands = summands, .mirror = mirror, .planes = planes.data()},
                   scratch);
  return planes;
}

ResamplePart Cut(double x, double y, double width, double height, int64_t new_height, int64_t new_width) {
  return {{x, y, width, height}, {x, y, width, height}, new_height, new_width};
}

// Pillow rounds to bytes after the columns and after the rows.
TEST(Resample, PartsAreThoseOfPillow) {
  std::ifstream file(StrCat(MOKA_SOURCE_DIR, "/tests/data/images/resampled.txt"));
  const Image image = Picture();
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream words(line);
    double x = 0;
    double y = 0;
    double width = 0;
    double height = 0;
    int64_t new_width = 0;
    int64_t new_height = 0;
    std::string hex;
    words >> x >> y >> width >> height >> new_width >> new_height >> hex;
    const ResamplePart part = Cut(x, y, width, height, new_height, new_width);
    const std::vector<float> planes = Planes(ViewOf(image), part);
    Image bytes;
    ResampleScratch scratch;
    ResampleToImage(ViewOf(image), part, scratch, bytes);
    ASSERT_EQ(hex.size(), planes.size() * 2) << line.substr(0, 30);
    for (size_t i = 0; i < planes.size(); ++i) {
      const int expected = std::stoi(hex.substr(2 * i, 2), nullptr, 16);
      const size_t pixel = i / 3;
      EXPECT_NEAR(planes[i % 3 * planes.size() / 3 + pixel], expected, 1.01) << line.substr(0, 30) << " at " << i;
      EXPECT_NEAR(bytes.pixels[i], expected, 1) << line.substr(0, 30) << " at " << i;
    }
  }
  EXPECT_EQ(lines, 7);
}

TEST(Resample, WeightsOfEveryPixelAddUpToOne) {
  Image image;
  image.Resize(50, 40, 3);
  std::ranges::fill(image.pixels, 77);
  RandomStream random(5, 1);
  for (int i = 0; i < 200; ++i) {
    const double width = random.Uniform(1, 50);
    const double height = random.Uniform(1, 40);
    const ResamplePart part =
        Cut(random.Uniform(0, 50 - width), random.Uniform(0, 40 - height), width, height,
            1 + static_cast<int64_t>(random.Below(60)), 1 + static_cast<int64_t>(random.Below(60)));
    for (const float value : Planes(ViewOf(image), part)) EXPECT_NEAR(value, 77, 1e-4);
  }
}

TEST(Resample, FactorsSummandsAndMirrorAreApplied) {
  const Image image = Picture();
  constexpr std::array<float, 3> kFactors = {2, 0.5F, -1};
  constexpr std::array<float, 3> kSummands = {1, -3, 100};
  for (const int64_t width : {1, 3, 4, 7, 16, 23}) {
    const ResamplePart part = Cut(4, 2, 40, 30, 9, width);
    const std::vector<float> plain = Planes(ViewOf(image), part);
    const std::vector<float> changed = Planes(ViewOf(image), part, true, kFactors.data(), kSummands.data());
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t y = 0; y < 9; ++y) {
        for (int64_t x = 0; x < width; ++x) {
          const auto row = (c * 9 + y) * width;
          const auto channel = static_cast<size_t>(c);
          EXPECT_FLOAT_EQ(changed[static_cast<size_t>(row + width - 1 - x)],
                          plain[static_cast<size_t>(row + x)] * kFactors[channel] + kSummands[channel]);
        }
      }
    }
  }
}

TEST(Resample, PlanesAndPixelsOfAPictureGiveTheSameBits) {
  const Image image = Picture();
  std::vector<uint8_t> planes;
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 61 * 47; ++i) planes.push_back(image.pixels[i * 3 + c]);
  }
  const PixelView planar{.channels = 3, .height = 47, .width = 61, .bytes = planes.data()};
  const ResamplePart part = Cut(3.25, 7.5, 41.5, 22, 19, 31);
  EXPECT_EQ(Planes(planar, part), Planes(ViewOf(image), part));
}

// Cutting after resizing, as a validation recipe says, against cutting out the source of just these pixels.
TEST(Resample, LimitsBeyondTheBoxGiveThePixelsOfTheWholeResized) {
  const Image image = Picture();
  const std::vector<float> whole = Planes(ViewOf(image), Cut(0, 0, 61, 47, 20, 30));
  const double x = 61.0 / 30;
  const double y = 47.0 / 20;
  const ResamplePart part{{5 * x, 4 * y, 12 * x, 10 * y}, {0, 0, 61, 47}, 10, 12};
  const std::vector<float> cut = Planes(ViewOf(image), part);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 10; ++i) {
      for (size_t j = 0; j < 12; ++j) {
        EXPECT_NEAR(cut[(c * 10 + i) * 12 + j], whole[(c * 20 + i + 4) * 30 + j + 5], 1e-3);
      }
    }
  }
}

}  // namespace
}  // namespace moka
