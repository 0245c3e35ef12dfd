// The list of changes as a whole: what is drawn depends on the sample alone, probabilities hold, all follow the
// picture.
#include "data/augment/augmenter.h"

#include <cmath>
#include <set>

#include "data/augment/erase.h"
#include "tests/data/augment/augment_fixture.h"

namespace moka {
namespace {

using Augmenters = AugmentGoldens;

Augmenter Make(const std::string& fields, Phase phase = TRAIN, uint64_t seed = 7) {
  return {FieldsOf<TransformationParameter>(fields), phase, seed};
}

std::vector<uint8_t> Applied(const Augmenter& augmenter, Image picture, const SampleId& id) {
  AugmentScratch scratch;
  augmenter.Change(id, picture, {}, scratch);
  return picture.pixels;
}

constexpr const char* kEach[] = {
    "augment { affine { degrees: 30 translate: 0.2 scale_min: 0.8 scale_max: 1.2 shear: 10 } }",
    "augment { color { brightness: 0.4 contrast: 0.4 saturation: 0.4 hue: 0.1 } }",
    "augment { lighting { std: 1 } }",
    "augment { elastic { alpha: 20 sigma: 2 } }",
    "augment { policy { kind: RAND_AUGMENT magnitude: 20 } }",
    "augment { policy { kind: TRIVIAL_AUGMENT } }",
    "augment { policy { kind: AUTO_AUGMENT_IMAGENET } }",
    "augment { policy { kind: AUTO_AUGMENT_CIFAR10 } }"};

TEST_F(Augmenters, DrawsDependOnSeedEpochAndRecordOnly) {
  for (const char* fields : kEach) {
    const Augmenter augmenter = Make(fields);
    const Augmenter same = Make(fields);
    const Augmenter other = Make(fields, TRAIN, 8);
    std::set<std::vector<uint8_t>> seen;
    int others_differ = 0;
    for (uint64_t record = 0; record < 40; ++record) {
      const auto changed = Applied(augmenter, Picture(3), {2, record});
      EXPECT_EQ(Applied(same, Picture(3), {2, record}), changed) << fields;
      others_differ += static_cast<int>(Applied(other, Picture(3), {2, record}) != changed);
      others_differ += static_cast<int>(Applied(augmenter, Picture(3), {3, record}) != changed);
      seen.insert(changed);
    }
    // Many of AutoAugment's changes have one strength.
    EXPECT_GE(seen.size(), 10U) << fields;
    EXPECT_GE(others_differ, 40) << fields;
  }
}

TEST_F(Augmenters, TestLeavesPicturesAlone) {
  for (const char* fields : kEach) {
    const Augmenter augmenter = Make(fields, TEST);
    EXPECT_FALSE(augmenter.changes_pictures());
    EXPECT_EQ(Applied(augmenter, Picture(3), {0, 1}), Picture(3).pixels);
  }
  std::vector<float> sample(3 * 8 * 8, 1.0F);
  Make("augment { erase { size: 4 } }", TEST).Erase({0, 1}, {3, 8, 8}, sample);
  EXPECT_THAT(sample, testing::Each(1.0F));
}

// A change draws from its own place in the list: what stands before it, and whether it happens, is nothing to it.
TEST_F(Augmenters, ChangesDoNotDisturbEachOther) {
  const std::string last = "augment { color { brightness: 0.5 } }";
  const Augmenter without = Make("augment { probability: 0 lighting {} } " + last);
  const Augmenter with = Make("augment { probability: 0 affine { degrees: 90 } } " + last);
  const Augmenter first = Make(last + " augment { probability: 0 lighting {} }");
  EXPECT_EQ(Applied(without, Picture(3), {1, 5}), Applied(with, Picture(3), {1, 5}));
  EXPECT_NE(Applied(without, Picture(3), {1, 5}), Applied(first, Picture(3), {1, 5}));
}

TEST_F(Augmenters, ChangesAreMadeInTheListsOrder) {
  const std::string invert = "augment { color { brightness: 0.5 } }";
  const std::string turn = "augment { affine { degrees: 20 fill: 200 } }";
  // Brightness after the turn changes the fill too.
  const Augmenter fill_kept = Make(invert + turn);
  const Augmenter fill_changed = Make(turn + invert);
  EXPECT_NE(Applied(fill_kept, Picture(3), {0, 3}), Applied(fill_changed, Picture(3), {0, 3}));
}

TEST_F(Augmenters, ProbabilitiesHold) {
  const Augmenter augmenter = Make("augment { probability: 0.3 policy { kind: RAND_AUGMENT count: 64 } }");
  const Image picture = Picture(1);
  int changed = 0;
  constexpr int kSamples = 3000;
  for (uint64_t i = 0; i < kSamples; ++i)
    changed += static_cast<int>(Applied(augmenter, picture, {0, i}) != picture.pixels);
  EXPECT_NEAR(changed, 0.3 * kSamples, 5 * std::sqrt(0.3 * 0.7 * kSamples));
}

TEST_F(Augmenters, ColorsFactorsAreEvenInTheirRange) {
  const Augmenter augmenter = Make("augment { color { brightness: 0.5 } }");
  double sum = 0;
  double least = 300;
  double most = 0;
  constexpr int kSamples = 2000;
  for (uint64_t i = 0; i < kSamples; ++i) {
    Image pixel;
    pixel.Resize(1, 1, 1);
    pixel.pixels = {160};
    AugmentScratch scratch;
    augmenter.Change({0, i}, pixel, {}, scratch);
    const double value = pixel.pixels[0];
    sum += value / kSamples;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_NEAR(least, 80, 1);
  EXPECT_NEAR(most, 239, 1);
  EXPECT_NEAR(sum, 159.5, 5 * 46.2 / std::sqrt(kSamples));
}

// The mask and the points go where the picture's paint goes; points that leave are no longer visible.
TEST_F(Augmenters, MasksBoxesAndPointsFollow) {
  const Augmenter augmenter = Make(
      "augment { affine { degrees: 40 translate: 0.3 scale_min: 0.8 scale_max: 1.3 shear: 15 } } "
      "augment { elastic { alpha: 40 sigma: 5 } } augment { policy { kind: TRIVIAL_AUGMENT } }");
  constexpr int64_t kSide = 80;
  int left = 0;
  int stayed = 0;
  int elsewhere = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    Image picture;
    picture.Resize(kSide, kSide, 3);
    Image mask;
    mask.Resize(kSide, kSide, 1);
    for (int64_t y = 37; y < 44; ++y) {
      for (int64_t x = 53; x < 60; ++x) mask.pixels[static_cast<size_t>(y * kSide + x)] = 3;
    }
    std::vector<KeyPoint> points = {{56.5F / kSide, 40.5F / kSide}};
    std::vector<Annotated> boxes = {{{53.0F / kSide, 37.0F / kSide, 60.0F / kSide, 44.0F / kSide}, 1, 0, false}};
    AugmentScratch scratch;
    const FollowingMask following{&mask, 255};
    augmenter.Change({0, i}, picture,
                     {.masks = {&following, 1}, .boxes = &boxes, .cut_boxes = [] {}, .points = &points}, scratch);
    const double x = double{points[0].x} * kSide;
    const double y = double{points[0].y} * kSide;
    const bool inside = x >= 1 && y >= 1 && x < kSide - 1 && y < kSide - 1;
    const bool outside = x < 0 || y < 0 || x >= kSide || y >= kSide;
    if (outside) {
      EXPECT_FALSE(points[0].is_visible);
      ++left;
      continue;
    }
    if (!inside || !points[0].is_visible) continue;
    ++stayed;
    const int64_t at = static_cast<int64_t>(y) * kSide + static_cast<int64_t>(x);
    elsewhere += static_cast<int>(mask.pixels[static_cast<size_t>(at)] != 3);
    EXPECT_TRUE(boxes[0].box.xmin < points[0].x && points[0].x < boxes[0].box.xmax) << i;
    EXPECT_TRUE(boxes[0].box.ymin < points[0].y && points[0].y < boxes[0].box.ymax) << i;
  }
  EXPECT_GT(left, 3);
  EXPECT_GT(stayed, 50);
  EXPECT_LE(elsewhere, 2);  // a point that grazed the border between two changes
}

TEST_F(Augmenters, ColorsMoveNothing) {
  const Augmenter augmenter = Make("augment { color { brightness: 0.5 hue: 0.2 } } augment { lighting {} }");
  Image picture = Picture(3);
  Image mask = Picture(1);
  std::vector<KeyPoint> points = {{0.25F, 0.75F}};
  AugmentScratch scratch;
  const FollowingMask following{&mask};
  augmenter.Change({0, 2}, picture, {.masks = {&following, 1}, .points = &points}, scratch);
  EXPECT_NE(picture.pixels, Picture(3).pixels);
  EXPECT_EQ(mask.pixels, Picture(1).pixels);
  EXPECT_EQ(points[0].x, 0.25F);
  EXPECT_EQ(points[0].y, 0.75F);
}

TEST_F(Augmenters, LightingNeedsColors) {
  const Augmenter augmenter = Make("augment { lighting {} }");
  EXPECT_THROW(Applied(augmenter, Picture(1), {0, 0}), std::exception);
}

// Erasing
// --------------------------------------------------------------------------------------------------------------

TEST_F(Augmenters, ErasingsAreaAndRatioAreDrawnAsAsked) {
  const auto erasing = FieldsOf<Erasing>("area_min: 0.05 area_max: 0.2 ratio_min: 0.5 ratio_max: 2");
  double area = 0;
  double log_ratio = 0;
  double least = 1;
  double most = 0;
  double center = 0;
  constexpr int kDraws = 4000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    RandomStream random(1, i);
    const ImageWindow w = DrawErasing(erasing, 200, 100, random);
    ASSERT_TRUE(w.x >= 0 && w.y >= 0 && w.x + w.width <= 200 && w.y + w.height <= 100);
    const double part = static_cast<double>(w.width * w.height) / (200 * 100);
    area += part / kDraws;
    least = std::min(least, part);
    most = std::max(most, part);
    log_ratio += std::log(static_cast<double>(w.height) / static_cast<double>(w.width)) / kDraws;
    center += (static_cast<double>(w.x) + static_cast<double>(w.width) / 2) / kDraws;
  }
  EXPECT_NEAR(area, 0.125, 5 * 0.0433 / std::sqrt(kDraws));
  EXPECT_NEAR(least, 0.05, 0.003);
  EXPECT_NEAR(most, 0.2, 0.003);
  EXPECT_NEAR(log_ratio, 0, 5 * 0.4 / std::sqrt(kDraws));
  EXPECT_NEAR(center, 100, 5 * 45 / std::sqrt(kDraws));
}

TEST_F(Augmenters, ErasedPixelsAreTheMeanOrNoise) {
  for (const bool noise : {false, true}) {
    const Augmenter augmenter =
        Make(std::string("augment { erase { area_min: 0.2 area_max: 0.2 ratio_min: 1 ratio_max: 1 noise: ") +
             (noise ? "true" : "false") + " } }");
    double sum = 0;
    double squares = 0;
    int64_t erased = 0;
    for (uint64_t i = 0; i < 20; ++i) {
      std::vector<float> sample(3 * 50 * 50, 77.0F);
      augmenter.Erase({0, i}, {3, 50, 50}, sample);
      const auto is_left = [&](size_t at) { return sample[at] == 77.0F; };
      for (size_t at = 0; at < 2500; ++at) {
        EXPECT_EQ(is_left(at), is_left(at + 2500));
        EXPECT_EQ(is_left(at), is_left(at + 5000));
      }
      for (const float value : sample) {
        if (value == 77.0F) continue;
        ++erased;
        sum += double{value};
        squares += double{value} * double{value};
      }
    }
    EXPECT_EQ(erased, 20 * 3 * 22 * 22);  // the root of 500 is 22.4
    const auto count = static_cast<double>(erased);
    EXPECT_NEAR(sum / count, 0, noise ? 0.03 : 0);
    EXPECT_NEAR(squares / count, noise ? 1 : 0, noise ? 0.04 : 0);
  }
}

TEST_F(Augmenters, CutoutIsASquareCutAtTheBorders) {
  const auto cutout = FieldsOf<Erasing>("size: 6");
  std::set<int64_t> widths;
  std::set<int64_t> lefts;
  for (uint64_t i = 0; i < 2000; ++i) {
    RandomStream random(1, i);
    const ImageWindow w = DrawErasing(cutout, 10, 12, random);
    ASSERT_TRUE(w.x >= 0 && w.y >= 0 && w.x + w.width <= 10 && w.y + w.height <= 12);
    widths.insert(w.width);
    lefts.insert(w.x);
  }
  EXPECT_EQ(widths, (std::set<int64_t>{3, 4, 5, 6}));  // half of it at least
  EXPECT_EQ(lefts, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace moka
