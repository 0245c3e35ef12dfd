// transform_param against plain loops, for each corner and flip that can be drawn.
#include "data/transform/transform.h"

#include <google/protobuf/text_format.h>

#include <set>

#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using Transforms = DataTest;

TransformationParameter Param(const std::string& text) {
  TransformationParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param)) << text;
  return param;
}

PixelView Planar(const std::vector<uint8_t>& bytes, int64_t c, int64_t h, int64_t w) {
  return {.channels = c, .height = h, .width = w, .bytes = bytes.data()};
}

std::vector<uint8_t> Ramp(int64_t count) {
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(i * 7));
  return bytes;
}

std::vector<float> Applied(const Transform& transform, const PixelView& pixels, const SampleId& id = {}) {
  std::vector<float> out(static_cast<size_t>(transform.OutputShape(pixels).Count()));
  TransformScratch scratch;
  transform.Apply(pixels, id, scratch, out);
  return out;
}

// Plain loops with the corner and the flip given.
std::vector<float> Expected(const PixelView& p, int64_t crop_h, int64_t crop_w, int64_t oy, int64_t ox, bool mirror,
                            int64_t pad, const std::vector<float>& mean, float scale,
                            const std::vector<float>& stddev) {
  std::vector<float> out;
  for (int64_t c = 0; c < p.channels; ++c) {
    for (int64_t y = 0; y < crop_h; ++y) {
      for (int64_t i = 0; i < crop_w; ++i) {
        const int64_t x = mirror ? crop_w - 1 - i : i;
        const int64_t sy = y + oy - pad;
        const int64_t sx = x + ox - pad;
        const bool inside = sy >= 0 && sy < p.height && sx >= 0 && sx < p.width;
        const int64_t at = p.order == PixelView::Order::kPlanar ? (c * p.height + sy) * p.width + sx
                                                                : (sy * p.width + sx) * p.channels + c;
        const float value = inside ? static_cast<float>(p.bytes[at]) : 0.0F;
        const auto channel = static_cast<size_t>(c);
        out.push_back((value - mean[channel]) * (scale / stddev[channel]));
      }
    }
  }
  return out;
}

TEST_F(Transforms, MeanIsSubtractedBeforeScale) {
  const auto bytes = Ramp(2 * 3 * 4);
  const PixelView pixels = Planar(bytes, 2, 3, 4);
  const Transform transform(Param("mean_value: 10 mean_value: 20 scale: 0.5"), TEST, 1, {});
  EXPECT_EQ(transform.OutputShape(pixels), (Shape{2, 3, 4}));
  EXPECT_EQ(Applied(transform, pixels), Expected(pixels, 3, 4, 0, 0, false, 0, {10, 20}, 0.5F, {1, 1}));
}

TEST_F(Transforms, TestCropsTheCenter) {
  const auto bytes = Ramp(3 * 9 * 8);
  const PixelView pixels = Planar(bytes, 3, 9, 8);
  const Transform square(Param("crop_size: 4"), TEST, 1, {});
  EXPECT_EQ(Applied(square, pixels), Expected(pixels, 4, 4, 2, 2, false, 0, {0, 0, 0}, 1, {1, 1, 1}));
  const Transform tall(Param("crop_h: 7 crop_w: 3 std_value: 4"), TEST, 1, {});
  EXPECT_EQ(Applied(tall, pixels), Expected(pixels, 7, 3, 1, 2, false, 0, {0, 0, 0}, 1, {4, 4, 4}));
}

// Every training sample equals plain loops for one corner and flip, all of which occur.
TEST_F(Transforms, TrainCropsAndMirrorsAtRandom) {
  for (const auto order : {PixelView::Order::kPlanar, PixelView::Order::kInterleaved}) {
    const auto bytes = Ramp(3 * 6 * 5);
    PixelView pixels = Planar(bytes, 3, 6, 5);
    pixels.order = order;
    const Transform transform(Param("crop_size: 4 pad: 1 mirror: true mean_value: 3 mean_value: 5 mean_value: 7 "
                                    "std_value: 2 std_value: 4 std_value: 8"),
                              TRAIN, 7, {});
    std::set<std::vector<float>> possible;
    for (int64_t oy = 0; oy <= 4; ++oy) {
      for (int64_t ox = 0; ox <= 3; ++ox) {
        for (const bool mirror : {false, true}) {
          possible.insert(Expected(pixels, 4, 4, oy, ox, mirror, 1, {3, 5, 7}, 1, {2, 4, 8}));
        }
      }
    }
    ASSERT_EQ(possible.size(), 40U);
    std::set<std::vector<float>> seen;
    for (uint64_t record = 0; record < 1000; ++record) seen.insert(Applied(transform, pixels, {0, record}));
    EXPECT_EQ(seen, possible);
  }
}

TEST_F(Transforms, RandomChoicesDependOnSeedEpochAndRecordOnly) {
  const auto bytes = Ramp(3 * 40 * 40);
  const PixelView pixels = Planar(bytes, 3, 40, 40);
  const auto param = Param("crop_size: 8 mirror: true");
  const Transform a(param, TRAIN, 1, {});
  const Transform b(param, TRAIN, 1, {});
  const Transform other(param, TRAIN, 2, {});
  const auto first = Applied(a, pixels, {3, 9});
  Applied(a, pixels, {3, 10});
  EXPECT_EQ(Applied(a, pixels, {3, 9}), first);
  EXPECT_EQ(Applied(b, pixels, {3, 9}), first);
  EXPECT_NE(Applied(b, pixels, {4, 9}), first);
  EXPECT_NE(Applied(other, pixels, {3, 9}), first);
}

TEST_F(Transforms, MeanImageIsTakenAtTheCropsPlace) {
  const auto bytes = Ramp(2 * 5 * 5);
  const PixelView pixels = Planar(bytes, 2, 5, 5);
  BlobProto mean;
  for (const int dim : {1, 2, 5, 5}) mean.mutable_shape()->add_dim(dim);
  for (const uint8_t byte : bytes) mean.add_data(static_cast<float>(byte) - 1.0F);
  Write("mean.binaryproto", mean.SerializeAsString());
  const Transform transform(Param("mean_file: 'mean.binaryproto' crop_size: 3 mirror: true scale: 0.25"), TRAIN, 1,
                            folder_);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_THAT(Applied(transform, pixels, {0, i}), testing::Each(0.25F));
  mean.clear_shape();  // the four old fields
  mean.set_num(1);
  mean.set_channels(2);
  mean.set_height(5);
  mean.set_width(5);
  Write("old.binaryproto", mean.SerializeAsString());
  const Transform old(Param("mean_file: 'old.binaryproto'"), TEST, 1, folder_);
  EXPECT_THAT(Applied(old, pixels), testing::Each(1.0F));
}

TEST_F(Transforms, MeanFilesThatDoNotFitAreNamed) {
  EXPECT_THAT(ErrorOf([&] { Transform t(Param("mean_file: 'none'"), TEST, 1, folder_); }), testing::HasSubstr("none"));
  Write("junk", "not a blob");
  EXPECT_THAT(ErrorOf([&] { Transform t(Param("mean_file: 'junk'"), TEST, 1, folder_); }),
              testing::HasSubstr("expected a blob (.binaryproto or .npy), but this is a text file"));
  BlobProto mean;
  for (const int dim : {1, 1, 4, 4}) mean.mutable_shape()->add_dim(dim);
  mean.add_data(1);
  Write("short", mean.SerializeAsString());
  EXPECT_THAT(ErrorOf([&] { Transform t(Param("mean_file: 'short'"), TEST, 1, folder_); }),
              testing::HasSubstr("shape [1,1,4,4] needs 16 values but there are 1"));
  for (int i = 0; i < 15; ++i) mean.add_data(1);
  Write("good", mean.SerializeAsString());
  const Transform t(Param("mean_file: 'good'"), TEST, 1, folder_);
  const auto bytes = Ramp(25);
  EXPECT_THAT(ErrorOf([&] { Applied(t, Planar(bytes, 1, 5, 5)); }),
              testing::HasSubstr("the mean image has shape [1,4,4], the record [1,5,5]"));
}

TEST_F(Transforms, ResizeShortKeepsTheAspect) {
  const Image image = Gradient(60, 30, 3);
  const Transform transform(Param("resize_short: 20 crop_size: 16"), TEST, 1, {});
  EXPECT_EQ(transform.OutputShape(ViewOf(image)), (Shape{3, 16, 16}));
  const Transform whole(Param("resize_short: 20"), TEST, 1, {});
  EXPECT_EQ(whole.OutputShape(ViewOf(image)), (Shape{3, 20, 40}));
  const std::vector<float> all = Applied(whole, ViewOf(image));
  std::vector<float> resized(all.size());
  ResampleScratch scratch;
  const std::array<float, 3> ones = {1, 1, 1};
  const std::array<float, 3> zeros = {0, 0, 0};
  const ImageBox box{0, 0, 60, 30};
  ResampleToPlanes(ViewOf(image), {box, box, 20, 40},
                   {.factors = ones.data(), .summands = zeros.data(), .planes = resized.data()}, scratch);
  EXPECT_EQ(all, resized);
  // The middle of the resized picture.
  const std::vector<float> crop = Applied(transform, ViewOf(image));
  for (size_t c = 0; c < 3; ++c) {
    for (size_t y = 0; y < 16; ++y) {
      for (size_t x = 0; x < 16; ++x) {
        EXPECT_NEAR(crop[(c * 16 + y) * 16 + x], all[(c * 20 + y + 2) * 40 + x + 12], 1e-3);
      }
    }
  }
}

TEST_F(Transforms, RandomResizedCropVariesAndKeepsItsShape) {
  const Image image = Gradient(64, 48, 3);
  const Transform transform(Param("crop_size: 24 rand_resized_crop {}"), TRAIN, 1, {});
  EXPECT_EQ(transform.OutputShape(ViewOf(image)), (Shape{3, 24, 24}));
  std::set<std::vector<float>> seen;
  for (uint64_t i = 0; i < 50; ++i) seen.insert(Applied(transform, ViewOf(image), {0, i}));
  EXPECT_EQ(seen.size(), 50U);
  // The whole area at its own aspect is the whole image.
  const Transform whole(Param("crop_h: 48 crop_w: 64 rand_resized_crop { scale_min: 1 ratio_min: 1.33333333 "
                              "ratio_max: 1.33333333 }"),
                        TRAIN, 1, {});
  EXPECT_EQ(Applied(whole, ViewOf(image)), Expected(ViewOf(image), 48, 64, 0, 0, false, 0, {0, 0, 0}, 1, {1, 1, 1}));
  // Planar bytes of the same picture give the same samples.
  std::vector<uint8_t> planes;
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 64 * 48; ++i) planes.push_back(image.pixels[i * 3 + c]);
  }
  EXPECT_EQ(Applied(transform, Planar(planes, 3, 48, 64), {1, 5}), Applied(transform, ViewOf(image), {1, 5}));
}

TEST_F(Transforms, FloatRecordsPassUnchanged) {
  const std::vector<float> values = {0.5F, -2.0F, 7.25F};
  const PixelView pixels{.channels = 3, .height = 1, .width = 1, .floats = values.data()};
  EXPECT_EQ(Applied(Transform(Param(""), TRAIN, 1, {}), pixels), values);
  EXPECT_THAT(ErrorOf([&] { Applied(Transform(Param("resize_short: 4"), TRAIN, 1, {}), pixels); }),
              testing::HasSubstr("only 8-bit records"));
}

TEST_F(Transforms, ContradictionsAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"force_color: true force_gray: true", "transform_param.force_gray: force_color is set too"},
      {"mean_file: 'm' mean_value: 1", "transform_param.mean_value: mean_file is set too"},
      {"crop_size: 3 crop_h: 3 crop_w: 3", "transform_param.crop_size"},
      {"crop_h: 3", "crop_h and crop_w must be set together"},
      {"rand_resized_crop {}", "needs crop_size"},
      {"crop_size: 3 rand_resized_crop { scale_min: 0 }", "expected 0 < scale_min"},
      {"crop_size: 3 rand_resized_crop { ratio_min: 2 ratio_max: 1 }", "expected 0 < ratio_min"},
      {"crop_size: 4294967295", "transform_param.crop_size: 4294967295 pixels"},
      {"pad: 4294967295", "transform_param.pad: 4294967295 pixels"},
      {"std_value: 0", "transform_param.std_value: 0 is not a positive number"},
      {"scale: nan", "transform_param.scale: nan is not a finite number"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(ErrorOf([&] { Transform t(Param(text), TRAIN, 1, {}); }), testing::HasSubstr(expected)) << text;
  }
}

TEST_F(Transforms, RecordsThatDoNotFitAreNamed) {
  const auto bytes = Ramp(3 * 4 * 4);
  EXPECT_EQ(ErrorOf([&] { Applied(Transform(Param("crop_size: 5"), TEST, 1, {}), Planar(bytes, 3, 4, 4)); }),
            "transform_param.crop_size: a crop of 5x5 (height x width) does not fit an image of 4x4 (height x width)");
  EXPECT_THAT(
      ErrorOf([&] { Applied(Transform(Param("mean_value: 1 mean_value: 2"), TEST, 1, {}), Planar(bytes, 3, 4, 4)); }),
      testing::HasSubstr("mean_value has 2 values, the record has 3 channels"));
  EXPECT_THAT(ErrorOf([&] {
                Applied(Transform(Param("mean_value: 1 mean_value: 2 mean_value: 3"), TEST, 1, {}),
                        Planar(bytes, 1, 4, 4));
              }),
              testing::EndsWith("the record has 1 channels; give one value or one a channel, or set force_color"));
  // A picture that was cut elsewhere is held against them, too.
  std::vector<float> out(3UL * 4 * 4);
  EXPECT_THAT(
      ErrorOf([&] { Transform(Param("std_value: 1 std_value: 2"), TEST, 1, {}).Normalize(Gradient(4, 4, 3), out); }),
      testing::HasSubstr("std_value has 2 values, the record has 3 channels"));
}

}  // namespace
}  // namespace moka
