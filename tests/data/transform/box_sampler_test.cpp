// The windows of batch samplers.
#include "data/transform/box_sampler.h"

#include <cmath>

#include "data/transform/image_adjust.h"
#include "tests/data/annotated_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

TEST(BoxSamplerTest, WindowsMeetTheConstraint) {
  const std::vector<Annotated> objects = {kLeft};
  const AnnotatedDataParameter p = Samplers(
      "batch_sampler { sampler { min_scale: 0.3 max_scale: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 } "
      "sample_constraint { min_jaccard_overlap: 0.5 } max_sample: 1 max_trials: 50 }");
  std::vector<NormalBox> found;
  int windows = 0;
  for (uint64_t i = 0; i < 50; ++i) {
    RandomStream random(1, i);
    NormalBox window;
    if (!SampleWindow(p.batch_sampler(), objects, random, found, window)) continue;
    ++windows;
    EXPECT_GE(Overlap(window, kLeft.box), 0.5F);
    EXPECT_GE(window.xmin, 0);
    EXPECT_LE(window.ymax, 1.0001F);
    EXPECT_LE(found.size(), 1U);
    const float scale = std::sqrt(window.Area());
    EXPECT_TRUE(scale >= 0.299F && scale <= 1.0001F) << scale;
  }
  EXPECT_GT(windows, 25);
}

TEST(BoxSamplerTest, WithoutAFittingWindowThereIsNone) {
  RandomStream random(1, 1);
  std::vector<NormalBox> found;
  NormalBox window;
  const AnnotatedDataParameter hopeless =
      Samplers("batch_sampler { sample_constraint { min_jaccard_overlap: 0.9 } max_trials: 5 }");
  EXPECT_FALSE(SampleWindow(hopeless.batch_sampler(), std::vector{kLeft}, random, found, window));
  EXPECT_FALSE(SampleWindow(hopeless.batch_sampler(), {}, random, found, window));
  const AnnotatedDataParameter unused = Samplers("batch_sampler { use_original_image: false }");
  EXPECT_FALSE(SampleWindow(unused.batch_sampler(), {}, random, found, window));
}

TEST(BoxSamplerTest, EachKindOfConstraint) {
  const NormalBox half{0, 0, 0.5F, 1};
  const NormalBox window{0, 0, 1, 1};
  const std::vector<Annotated> objects = {{half, 1, 0, false}};
  const auto allows = [&](const std::string& text, const NormalBox& w) {
    return Satisfies(Parsed<SampleConstraint>(text), w, objects);
  };
  EXPECT_TRUE(allows("", window));
  EXPECT_TRUE(allows("min_jaccard_overlap: 0.5 max_jaccard_overlap: 0.5", window));
  EXPECT_FALSE(allows("min_jaccard_overlap: 0.6", window));
  EXPECT_FALSE(allows("max_jaccard_overlap: 0.4", window));
  EXPECT_TRUE(allows("min_sample_coverage: 0.5", window));
  EXPECT_FALSE(allows("min_sample_coverage: 0.51", window));
  EXPECT_TRUE(allows("min_object_coverage: 1", window));
  EXPECT_FALSE(allows("min_object_coverage: 1", {0.25F, 0, 1, 1}));
  EXPECT_FALSE(allows("min_jaccard_overlap: 0.1", {0.6F, 0, 1, 1}));
}

TEST(BoxSamplerTest, Mistakes) {
  const auto error = [](const std::string& text) {
    return ErrorOf([&] { CheckSamplers(Samplers("batch_sampler { " + text + " }").batch_sampler()); });
  };
  EXPECT_THAT(error("sampler { min_scale: 0 }"), HasSubstr("batch_sampler[0]: scales from 0 to 1"));
  EXPECT_THAT(error("sampler { max_scale: 2 }"), HasSubstr("scales from 1 to 2"));
  EXPECT_THAT(error("sampler { min_aspect_ratio: 2 }"), HasSubstr("aspect ratios from 2 to 1"));
  EXPECT_THAT(error("max_trials: 4000000000"), HasSubstr("max_trials is 4000000000"));
}

TEST(BoxSamplerTest, JitteredWindowsLieInTheImage) {
  int wholes = 0;
  int halves = 0;
  for (uint64_t i = 0; i < 500; ++i) {
    RandomStream random(3, i);
    const NormalBox window = JitterWindow(0.4F, false, random);
    const float width = window.xmax - window.xmin;
    const float height = window.ymax - window.ymin;
    EXPECT_GE(std::min(width, height), 0.6F - 1e-5F);
    EXPECT_GE(std::min(window.xmin, window.ymin), 0);
    EXPECT_LE(std::max(window.xmax, window.ymax), 1 + 1e-5F);
    wholes += width == 1 && height == 1 ? 1 : 0;
    halves += std::min(width, height) < 0.8F ? 1 : 0;
    RandomStream again(3, i);
    const NormalBox alike = JitterWindow(0.4F, true, again);
    EXPECT_NEAR(alike.xmax - alike.xmin, alike.ymax - alike.ymin, 1e-5F);
  }
  EXPECT_NEAR(wholes, 100, 30);
  EXPECT_NEAR(halves, 225, 60);  // three in five draw from 0.6 on: a side of two is below 0.8 in three of four
}

}  // namespace
}  // namespace moka
