// Affine maps against Pillow and torchvision within a byte, exact quarter turns, and boxes and masks that follow the
// paint.
#include "data/augment/geometry.h"

#include <cmath>

#include "core/rng.h"
#include "data/augment/elastic.h"
#include "tests/data/augment/augment_fixture.h"

namespace moka {
namespace {

using Geometries = AugmentGoldens;

double TangentOf(double degrees) { return std::tan(degrees * std::acos(-1.0) / 180); }

// Pillow interpolates in doubles, ours in 2048ths: one byte's difference.
TEST_F(Geometries, AffineMapsArePillowsAndTorchvisions) {
  const auto fill = goldens_.at("fill").get<uint8_t>();
  int cases = 0;
  for (const auto& golden : goldens_.at("affines")) {
    const auto number = [&](const char* name) { return golden.at(name).get<double>(); };
    Image image = Picture(3);
    const PicturePoint center{static_cast<double>(image.width) / 2, static_cast<double>(image.height) / 2};
    const AffineParts parts{.degrees = number("degrees"),
                            .dx = number("dx"),
                            .dy = number("dy"),
                            .scale = number("scale"),
                            .shear_x = TangentOf(number("shear_x")),
                            .shear_y = TangentOf(number("shear_y"))};
    Image scratch;
    PictureMap(AffineAbout(center, parts)).MovePicture(fill, image, scratch);
    EXPECT_LE(Distance(image.pixels, Bytes(golden.at("pixels"))), 1) << golden.at("degrees");
    ++cases;
  }
  EXPECT_EQ(cases, 7);
}

TEST_F(Geometries, WhereNothingMovesEachPixelStays) {
  const Image picture = Picture(3);
  Displacement still{.height = picture.height, .width = picture.width};
  still.dx.assign(static_cast<size_t>(picture.height * picture.width), 0.0F);
  still.dy = still.dx;
  for (const PictureMap& geometry : {PictureMap(AffineMap{}), PictureMap(still)}) {
    Image image = picture;
    Image scratch;
    geometry.MovePicture(7, image, scratch);
    EXPECT_EQ(image.pixels, picture.pixels);
    Image mask = Picture(1);
    geometry.MoveMask(7, mask, scratch);
    EXPECT_EQ(mask.pixels, Picture(1).pixels);
  }
}

TEST_F(Geometries, QuarterTurnsAreExact) {
  Image mask;
  mask.Resize(3, 3, 1);
  mask.pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Image picture = mask;
  const PictureMap quarter(AffineAbout({1.5, 1.5}, {.degrees = 90}));
  Image scratch;
  quarter.MoveMask(0, mask, scratch);
  EXPECT_EQ(mask.pixels, (std::vector<uint8_t>{7, 4, 1, 8, 5, 2, 9, 6, 3}));  // clockwise
  quarter.MovePicture(0, picture, scratch);
  EXPECT_EQ(picture.pixels, mask.pixels);
}

TEST_F(Geometries, OutsideIsTheFill) {
  Image mask = Picture(1);
  Image picture = Picture(3);
  const PictureMap away(AffineAbout({}, {.dx = 1000}));
  Image scratch;
  away.MoveMask(255, mask, scratch);
  away.MovePicture(12, picture, scratch);
  EXPECT_THAT(mask.pixels, testing::Each(255));
  EXPECT_THAT(picture.pixels, testing::Each(12));
}

// A random map that keeps the middle of the picture inside.
PictureMap RandomAffine(RandomStream& random, double side) {
  return PictureMap(AffineAbout({side / 2, side / 2}, {.degrees = random.Uniform(-180, 180),
                                                       .dx = random.Uniform(-5, 5),
                                                       .dy = random.Uniform(-5, 5),
                                                       .scale = random.Uniform(0.7, 1.4),
                                                       .shear_x = random.Uniform(-0.4, 0.4),
                                                       .shear_y = random.Uniform(-0.4, 0.4)}));
}

struct Bounds {
  double left = 1e9;
  double top = 1e9;
  double right = -1e9;
  double bottom = -1e9;
};
Bounds BoundsOfPaint(const Image& image) {
  Bounds b;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      if (image.pixels[static_cast<size_t>((y * image.width + x) * image.channels)] < 128) continue;
      b.left = std::min(b.left, static_cast<double>(x));
      b.right = std::max(b.right, static_cast<double>(x + 1));
      b.top = std::min(b.top, static_cast<double>(y));
      b.bottom = std::max(b.bottom, static_cast<double>(y + 1));
    }
  }
  return b;
}

// A white rectangle is moved as a picture, as a mask and as a box: all three end at the same place.
void ExpectAllFollow(const PictureMap& geometry, RandomStream& random, double allowed) {
  constexpr int64_t kSide = 96;
  Image picture;
  picture.Resize(kSide, kSide, 3);
  Image mask;
  mask.Resize(kSide, kSide, 1);
  const auto left = static_cast<int64_t>(32 + random.Below(12));
  const auto top = static_cast<int64_t>(32 + random.Below(12));
  const auto right = left + 8 + static_cast<int64_t>(random.Below(16));
  const auto bottom = top + 8 + static_cast<int64_t>(random.Below(16));
  for (int64_t y = top; y < bottom; ++y) {
    for (int64_t x = left; x < right; ++x) {
      std::fill_n(picture.pixels.begin() + (y * kSide + x) * 3, 3, uint8_t{255});
      mask.pixels[static_cast<size_t>(y * kSide + x)] = 255;
    }
  }
  Image scratch;
  geometry.MovePicture(0, picture, scratch);
  geometry.MoveMask(0, mask, scratch);
  const auto part = [](int64_t pixels) { return static_cast<float>(pixels) / static_cast<float>(kSide); };
  const NormalBox box = geometry.BoundsOf({part(left), part(top), part(right), part(bottom)}, kSide, kSide);
  for (const Image& moved : {picture, mask}) {
    const Bounds paint = BoundsOfPaint(moved);
    EXPECT_NEAR(paint.left, double{box.xmin} * kSide, allowed);
    EXPECT_NEAR(paint.top, double{box.ymin} * kSide, allowed);
    EXPECT_NEAR(paint.right, double{box.xmax} * kSide, allowed);
    EXPECT_NEAR(paint.bottom, double{box.ymax} * kSide, allowed);
  }
}

// A sharp corner that is turned covers less than half of its last pixels: the paint ends inside the box's corners.
TEST_F(Geometries, BoxesAndMasksFollowAffineMaps) {
  for (uint64_t i = 0; i < 300; ++i) {
    RandomStream random(11, i);
    ExpectAllFollow(RandomAffine(random, 96), random, 2.5);
    if (HasFailure()) FAIL() << "map " << i;
  }
}

TEST_F(Geometries, BoxesAndMasksFollowDisplacements) {
  const auto elastic = FieldsOf<ElasticChange>("alpha: 60 sigma: 6");
  for (uint64_t i = 0; i < 100; ++i) {
    RandomStream random(12, i);
    Displacement field;
    DrawElastic(elastic, 96, 96, random, field);
    ExpectAllFollow(PictureMap(field), random, 1.6);
    if (HasFailure()) FAIL() << "field " << i;
  }
}

TEST_F(Geometries, PointsGoThereAndBack) {
  for (uint64_t i = 0; i < 200; ++i) {
    RandomStream random(13, i);
    Displacement field;
    DrawElastic(FieldsOf<ElasticChange>("alpha: 40 sigma: 5"), 96, 96, random, field);
    for (const PictureMap& geometry : {RandomAffine(random, 96), PictureMap(field)}) {
      const PicturePoint p{random.Uniform(0, 96), random.Uniform(0, 96)};
      const PicturePoint back = geometry.SourceOf(geometry.ResultOf(p));
      EXPECT_NEAR(back.x, p.x, 2e-3);
      EXPECT_NEAR(back.y, p.y, 2e-3);
    }
  }
}

// The field again, as a sum over all pixels of mirrored noise.
TEST_F(Geometries, ElasticFieldsAreBlurredNoise) {
  constexpr int64_t kHeight = 20;
  constexpr int64_t kWidth = 15;
  const auto elastic = FieldsOf<ElasticChange>("alpha: 30 sigma: 1.5");
  RandomStream random(3, 4, 100);
  Displacement field;
  DrawElastic(elastic, kWidth, kHeight, random, field);
  RandomStream again(3, 4, 100);
  const auto mirrored = [](int64_t i, int64_t size) { return i < 0 ? -i : i >= size ? 2 * size - 2 - i : i; };
  for (const std::vector<float>* values : {&field.dx, &field.dy}) {
    std::vector<double> noise;
    for (int64_t i = 0; i < kHeight * kWidth / 2; ++i) {
      const uint32_t bits = again.Bits();
      for (const uint32_t part : {bits & 0xFFFFU, bits >> 16U}) noise.push_back(part / 65535.0 * 2 - 1);
    }
    constexpr int64_t kReach = 6;
    for (int64_t y = 0; y < kHeight; ++y) {
      for (int64_t x = 0; x < kWidth; ++x) {
        double sum = 0;
        double weights = 0;
        for (int64_t dy = -kReach; dy <= kReach; ++dy) {
          for (int64_t dx = -kReach; dx <= kReach; ++dx) {
            const double weight = std::exp(-static_cast<double>(dx * dx + dy * dy) / (2 * 1.5 * 1.5));
            sum += weight * noise[static_cast<size_t>(mirrored(y + dy, kHeight) * kWidth + mirrored(x + dx, kWidth))];
            weights += weight;
          }
        }
        ASSERT_NEAR(double{(*values)[static_cast<size_t>(y * kWidth + x)]}, 30 * sum / weights, 1e-3) << y << " " << x;
      }
    }
  }
}

}  // namespace
}  // namespace moka
