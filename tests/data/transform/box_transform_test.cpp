// Boxes that follow their image through its transformation.
#include "data/transform/box_transform.h"

#include <cmath>

#include "data/transform/image_adjust.h"
#include "tests/data/annotated_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

// A dark image with a bright rectangle, and the box of it.
struct Bright {
  Image image;
  Annotated box;
};
Bright MakeBright(int64_t height, int64_t width) {
  Bright made{{}, {{0.25F, 0.25F, 0.75F, 0.5F}, 1, 0, false}};
  made.image.Resize(width, height, 3);
  for (int64_t y = height / 4; y < height / 2; ++y) {
    for (int64_t x = width / 4; x < 3 * width / 4; ++x) {
      for (int64_t c = 0; c < 3; ++c) made.image.pixels[static_cast<size_t>((y * width + x) * 3 + c)] = 200;
    }
  }
  return made;
}

struct Sample {
  Shape shape;
  std::vector<float> data;
  std::vector<Annotated> boxes;
  float At(int64_t c, float y, float x) const {
    const auto row = static_cast<int64_t>(y * static_cast<float>(shape[1]));
    const auto column = static_cast<int64_t>(x * static_cast<float>(shape[2]));
    return data[static_cast<size_t>((c * shape[1] + row) * shape[2] + column)];
  }
};

Sample Apply(const std::string& fields, const std::string& samplers, uint64_t record, const Bright& bright,
             Phase phase = TRAIN) {
  const BoxTransform transform(Fields(fields), Samplers(samplers), phase, 5);
  BoxScratch scratch;
  scratch.image = bright.image;
  scratch.annotations = {bright.box};
  Sample sample;
  sample.shape = transform.OutputShape(bright.image);
  sample.data.resize(static_cast<size_t>(sample.shape.Count()));
  transform.Apply({0, record}, scratch, sample.data);
  sample.boxes = scratch.annotations;
  return sample;
}

// The box lies where the bright pixels are: inside it is bright, and just outside it dark.
void ExpectBoxOnBright(const Sample& sample) {
  for (const Annotated& a : sample.boxes) {
    const float x = (a.box.xmin + a.box.xmax) / 2;
    const float y = (a.box.ymin + a.box.ymax) / 2;
    EXPECT_GT(sample.At(1, y, x), 150);
    const auto is_dark = [&](float at_y, float at_x) {
      const bool inside = at_y > 0.03F && at_y < 0.97F && at_x > 0.03F && at_x < 0.97F;
      return !inside || sample.At(1, at_y, at_x) < 50;
    };
    EXPECT_TRUE(is_dark(y, a.box.xmin - 0.07F));
    EXPECT_TRUE(is_dark(y, a.box.xmax + 0.07F));
    EXPECT_TRUE(is_dark(a.box.ymin - 0.07F, x));
    EXPECT_TRUE(is_dark(a.box.ymax + 0.07F, x));
  }
}

TEST(BoxTransformTest, BoxesFollowTheirImage) {
  const Bright bright = MakeBright(240, 480);  // Caffe cuts whole pixels: small errors of large images
  const std::string window =
      "batch_sampler { sampler { min_scale: 0.4 max_scale: 1 min_aspect_ratio: 0.5 "
      "max_aspect_ratio: 2 } max_sample: 1 max_trials: 9 }";
  const std::string warp = "resize_param { height: 64 width: 64 ";
  const std::vector<std::pair<std::string, std::string>> settings = {
      {warp + "}", ""},
      {"mirror: true " + warp + "}", ""},
      {"expand_param { max_expand_ratio: 3 } " + warp + "}", ""},
      {"mirror: true emit_constraint { emit_type: CENTER } " + warp + "}", window},
      {"mirror: true crop_size: 56 " + warp + "interp_mode: NEAREST interp_mode: AREA interp_mode: CUBIC }", ""},
      {warp + "resize_mode: FIT_LARGE_SIZE_AND_PAD }", ""},
      {"resize_param { height: 50 width: 120 resize_mode: FIT_LARGE_SIZE_AND_PAD interp_mode: LANCZOS4 }", window},
  };
  for (const auto& [fields, samplers] : settings) {
    SCOPED_TRACE(fields);
    size_t boxes = 0;
    for (uint64_t record = 0; record < 20; ++record) {
      const Sample sample = Apply(fields, samplers, record, bright);
      ExpectBoxOnBright(sample);
      boxes += sample.boxes.size();
    }
    EXPECT_GT(boxes, 10U);
  }
}

TEST(BoxTransformTest, MirrorsAboutHalfOfTheImages) {
  const Bright bright{MakeBright(8, 8).image, {{0, 0, 0.25F, 1}, 1, 0, false}};
  int mirrored = 0;
  for (uint64_t record = 0; record < 64; ++record) {
    const Sample sample = Apply("mirror: true", "", record, bright);
    ASSERT_EQ(sample.boxes.size(), 1U);
    if (sample.boxes[0].box.xmin == 0.75F) ++mirrored;
  }
  EXPECT_GT(mirrored, 20);
  EXPECT_LT(mirrored, 44);
}

TEST(BoxTransformTest, BoxesThatAreNotEmittedAreDropped) {
  Bright bright = MakeBright(16, 16);
  bright.box.box = {0, 0, 0.5F, 0.5F};
  const std::string crop = "crop_size: 8 ";  // TEST: the centre, a quarter of the box
  EXPECT_EQ(Apply(crop, "", 0, bright, TEST).boxes.size(), 1U);
  const std::string overlap = "emit_constraint { emit_type: MIN_OVERLAP emit_overlap: ";
  EXPECT_EQ(Apply(crop + overlap + "0.2 }", "", 0, bright, TEST).boxes.size(), 1U);
  EXPECT_EQ(Apply(crop + overlap + "0.3 }", "", 0, bright, TEST).boxes.size(), 0U);
  EXPECT_EQ(Apply(crop + "emit_constraint { emit_type: CENTER }", "", 0, bright, TEST).boxes.size(), 1U);
  bright.box.box = {0, 0, 0.4F, 0.5F};
  EXPECT_EQ(Apply(crop + "emit_constraint { emit_type: CENTER }", "", 0, bright, TEST).boxes.size(), 0U);
}

TEST(BoxTransformTest, MeanScaleAndTheCanvas) {
  const Bright bright = MakeBright(8, 8);
  const Sample sample = Apply("mean_value: 10 mean_value: 20 mean_value: 30 scale: 0.5", "", 0, bright);
  EXPECT_EQ(sample.At(0, 0, 0), -5);
  EXPECT_EQ(sample.At(2, 0.3F, 0.3F), 85);
  const Sample large = Apply(
      "mean_value: 10 mean_value: 20 mean_value: 30 expand_param { max_expand_ratio: 4 } "
      "resize_param { height: 32 width: 32 interp_mode: NEAREST }",
      "", 3, bright);
  int of_mean = 0;
  for (const float v : large.data) of_mean += v == 0 ? 1 : 0;
  EXPECT_GT(of_mean, 1000);
}

TEST(BoxTransformTest, DistortionsStayInRangeAndRepeat) {
  const Bright bright = MakeBright(16, 16);
  const std::string fields =
      "distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 contrast_lower: 0.5 "
      "contrast_upper: 1.5 hue_prob: 0.5 hue_delta: 18 saturation_prob: 0.5 saturation_lower: 0.5 "
      "saturation_upper: 1.5 random_order_prob: 0.5 }";
  int changed = 0;
  for (uint64_t record = 0; record < 20; ++record) {
    const Sample sample = Apply(fields, "", record, bright);
    EXPECT_EQ(sample.data, Apply(fields, "", record, bright).data);
    changed += sample.data != Apply("", "", record, bright).data ? 1 : 0;
    for (const float v : sample.data) ASSERT_TRUE(v >= 0 && v <= 255);
  }
  EXPECT_GT(changed, 10);
}

TEST(BoxTransformTest, Mistakes) {
  const auto error = [](const std::string& fields, const std::string& samplers = "") {
    return ErrorOf([&] { BoxTransform(Fields(fields), Samplers(samplers), TRAIN, 0); });
  };
  EXPECT_THAT(error("noise_param { hist_eq: true }"), HasSubstr("transform_param.noise_param: is not supported"));
  EXPECT_THAT(error("resize_param_yolo { height: 3 width: 3 }"), HasSubstr("YoloAnnotatedData's; set resize_param"));
  EXPECT_THAT(error("mean_file: \"a\""), HasSubstr("use mean_value"));
  EXPECT_THAT(error("resize_param { height: 3 width: 3 resize_mode: FIT_SMALL_SIZE }"), HasSubstr("FIT_SMALL_SIZE"));
  EXPECT_THAT(error("resize_param { height: 3 }"), HasSubstr("height 3 and width 0"));
  EXPECT_THAT(error("expand_param { max_expand_ratio: 0.5 } crop_size: 3"), HasSubstr("max_expand_ratio is 0.5"));
  EXPECT_THAT(error("expand_param { max_expand_ratio: 2 }"), HasSubstr("resize_param: is needed"));
  EXPECT_THAT(error("", "batch_sampler { }"), HasSubstr("resize_param: is needed"));
  EXPECT_THAT(error("distort_param { contrast_lower: 2 contrast_upper: 1 }"), HasSubstr("contrast from 2 to 1"));
  EXPECT_THAT(error("resize_short: 8"), HasSubstr("use resize_param"));
}

}  // namespace
}  // namespace moka
