// AnnotatedData: records with boxes, the windows of batch samplers, boxes that follow their image, batches.
#include <cmath>
#include <fstream>

#include "data/pipeline/pipeline.h"
#include "data/transform/box_sampler.h"
#include "data/transform/box_transform.h"
#include "data/transform/image_adjust.h"
#include "proto/text/text_format.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

AnnotatedDatum RecordOf(const std::vector<Annotated>& boxes, int height = 20, int width = 40, int seed = 0) {
  AnnotatedDatum record;
  *record.mutable_datum() = RawDatum(3, height, width, seed, 7);
  record.set_type(AnnotatedDatum::BBOX);
  for (const Annotated& a : boxes) {
    AnnotationGroup& group = *record.add_annotation_group();
    group.set_group_label(a.group_label);
    Annotation& annotation = *group.add_annotation();
    annotation.set_instance_id(a.instance_id);
    NormalizedBBox& box = *annotation.mutable_bbox();
    box.set_xmin(a.box.xmin);
    box.set_ymin(a.box.ymin);
    box.set_xmax(a.box.xmax);
    box.set_ymax(a.box.ymax);
    box.set_difficult(a.difficult);
  }
  return record;
}

const Annotated kLeft{{0.125F, 0.25F, 0.5F, 0.75F}, 3, 1, true};
const Annotated kRight{{0.5F, 0, 1, 1}, 2, 4, false};

template <class Message>
Message Parsed(const std::string& text) {
  Message message;
  ParseText(text, "param", message);
  return message;
}

TransformationParameter Fields(const std::string& text) { return Parsed<TransformationParameter>(text); }
AnnotatedDataParameter Samplers(const std::string& text) { return Parsed<AnnotatedDataParameter>(text); }

// Records ------------------------------------------------------------------------------------------------------------

TEST(AnnotatedRecordTest, ReadsImageAndBoxesInPlace) {
  const std::string wire = RecordOf({kLeft, kRight}).SerializeAsString();
  AnnotatedRecord record;
  ParseAnnotated(wire, record);
  EXPECT_EQ(record.datum, RawDatum(3, 20, 40, 0, 7).SerializeAsString());
  EXPECT_GE(record.datum.data(), wire.data());
  EXPECT_LT(record.datum.data(), wire.data() + wire.size());
  ASSERT_EQ(record.annotations.size(), 2U);
  EXPECT_EQ(record.annotations[0].group_label, 3);
  EXPECT_EQ(record.annotations[0].instance_id, 1);
  EXPECT_TRUE(record.annotations[0].difficult);
  EXPECT_EQ(record.annotations[1].box.xmin, 0.5F);
}

TEST(AnnotatedRecordTest, DamageIsAnError) {
  const std::string wire = RecordOf({kLeft, kRight}, 2, 2).SerializeAsString();
  AnnotatedRecord record;
  for (size_t length = 0; length < wire.size(); ++length) {
    AnnotatedDatum whole;
    const std::string part = wire.substr(0, length);
    const bool is_valid = whole.ParseFromString(part) && whole.has_datum();
    if (is_valid) {
      EXPECT_NO_THROW(ParseAnnotated(part, record)) << length;
    } else {
      EXPECT_THAT(ErrorOf([&] { ParseAnnotated(part, record); }), HasSubstr("not an AnnotatedDatum")) << length;
    }
  }
}

// Samplers -----------------------------------------------------------------------------------------------------------

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

// Transform ----------------------------------------------------------------------------------------------------------

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

// Pipeline -----------------------------------------------------------------------------------------------------------

class AnnotatedDataTest : public DataTest {
 protected:
  void WriteRecords(const std::vector<AnnotatedDatum>& records) const {
    LmdbWriter writer(At("db"));
    for (const AnnotatedDatum& r : records) writer.Put(LmdbKey(writer.entries(), "r"), r.SerializeAsString());
    writer.Finish();
  }
  std::unique_ptr<Pipeline> Open(const std::string& fields, int64_t threads = 1) const {
    LayerParameter layer;
    ParseText(
        "name: \"d\" type: \"AnnotatedData\" top: \"data\" top: \"label\" data_param { source: \"db\" backend: "
        "LMDB batch_size: 2 } " +
            fields,
        "net", layer);
    return OpenPipeline(layer, {.seed = 3, .threads = threads, .base_folder = folder_});
  }
  static std::pair<std::vector<float>, std::vector<float>> Next(Pipeline& pipeline) {
    OwnedTensor data(pipeline.types()[0]);
    OwnedTensor label(pipeline.types()[1]);
    pipeline.Next(std::vector{data.tensor(), label.tensor()});
    const auto values = data.tensor().as<float>();
    const auto rows = label.tensor().as<float>();
    return {{values.begin(), values.end()}, {rows.begin(), rows.end()}};
  }
};

TEST_F(AnnotatedDataTest, EachImageHasRoomForTheMostBoxesOfARecord) {
  WriteRecords({RecordOf({kLeft}), RecordOf({}), RecordOf({kLeft, kRight})});
  const auto pipeline = Open("");
  EXPECT_EQ(pipeline->types()[0].shape, (Shape{2, 3, 20, 40}));
  EXPECT_EQ(pipeline->types()[1].shape, (Shape{1, 1, 4, 8}));
  EXPECT_EQ(pipeline->epoch_size(), 3);
  const auto [data, rows] = Next(*pipeline);
  EXPECT_EQ(data[1], 1);
  EXPECT_EQ(std::vector(rows.begin(), rows.begin() + 8), (std::vector<float>{0, 3, 1, 0.125F, 0.25F, 0.5F, 0.75F, 1}));
  EXPECT_EQ(std::vector(rows.begin() + 8, rows.end()), std::vector<float>(24, -1));
  const auto [more, next] = Next(*pipeline);  // the third record, and the first again
  EXPECT_EQ(std::vector(next.begin() + 8, next.begin() + 16), (std::vector<float>{0, 2, 4, 0.5F, 0, 1, 1, 0}));
  EXPECT_EQ(next[16], 1);
  EXPECT_EQ(next[24], -1);
}

TEST_F(AnnotatedDataTest, BatchesDoNotDependOnTheThreads) {
  std::vector<AnnotatedDatum> records;
  for (int i = 0; i < 7; ++i) records.push_back(RecordOf({kLeft, kRight}, 20 + i, 40 - i, i));
  WriteRecords(records);
  const std::string fields =
      "transform_param { mirror: true resize_param { height: 12 width: 16 interp_mode: LINEAR interp_mode: AREA } "
      "expand_param { max_expand_ratio: 2 prob: 0.5 } emit_constraint { emit_type: CENTER } distort_param { "
      "brightness_prob: 1 brightness_delta: 9 } } annotated_data_param { batch_sampler { max_sample: 1 max_trials: 1 } "
      "batch_sampler { sampler { min_scale: 0.3 } sample_constraint { min_jaccard_overlap: 0.3 } max_sample: 1 } }";
  const auto one = Open(fields);
  const auto many = Open(fields, 4);
  for (int batch = 0; batch < 8; ++batch) EXPECT_EQ(Next(*one), Next(*many)) << batch;
  many->Seek(6);
  one->Seek(6);
  EXPECT_EQ(Next(*one), Next(*many));
}

TEST_F(AnnotatedDataTest, YolosListsHaveCentresAndSides) {
  WriteRecords({RecordOf({kLeft, kRight}), RecordOf({})});
  const std::string whole = "annotated_data_param { yolo_data_type: 1 yolo_data_jitter: 0 ";
  const auto pipeline = Open(whole + "}");
  ASSERT_EQ(pipeline->types()[1].shape, (Shape{2, 1, 300, 5}));
  const auto [data, lists] = Next(*pipeline);
  EXPECT_EQ(std::vector(lists.begin(), lists.begin() + 10),
            (std::vector<float>{2, 0.3125F, 0.5F, 0.375F, 0.5F, 1, 0.75F, 0.5F, 0.5F, 1}));
  EXPECT_EQ(std::vector(lists.begin() + 10, lists.end()), std::vector<float>(2990, 0));
  const auto [more, easy] = Next(*Open(whole + "train_diffcult: false }"));
  EXPECT_EQ(easy[0], 1);
  EXPECT_EQ(easy[5], 0);
  EXPECT_THAT(ErrorOf([&] { Open("annotated_data_param { yolo_data_type: 1 }"); }),
              HasSubstr("resize_param: is needed"));
  EXPECT_THAT(ErrorOf([&] { Open(whole + "difficult_label_warmup: true }"); }), HasSubstr("difficult_label_warmup"));
  EXPECT_THAT(
      ErrorOf([&] {
        Open("transform_param { resize_param { height: 8 width: 8 } } annotated_data_param { yolo_data_jitter: 1 }");
      }),
      HasSubstr("yolo_data_jitter"));
}

TEST_F(AnnotatedDataTest, ALabelImageGoesWithItsImage) {
  AnnotatedDatum record = RecordOf({kLeft}, 32, 32);
  Image grey;
  grey.Resize(32, 32, 1);
  for (size_t i = 0; i < grey.pixels.size(); ++i) grey.pixels[i] = i % 32 < 16 ? 200 : 2;
  record.mutable_datum()->set_seg_label(EncodePng(grey));
  WriteRecords({record, record});
  const auto planes = [&](const std::string& fields) {
    const auto pipeline = Open("top: \"picture\" " + fields);
    OwnedTensor data(pipeline->types()[0]);
    OwnedTensor label(pipeline->types()[1]);
    OwnedTensor picture(pipeline->types()[2]);
    pipeline->Next(std::vector{data.tensor(), label.tensor(), picture.tensor()});
    const auto values = picture.tensor().as<float>();
    return std::pair(pipeline->types()[2].shape, std::vector<float>(values.begin(), values.end()));
  };
  const auto [shape, values] = planes("annotated_data_param { seg_scales: 16 }");
  EXPECT_EQ(shape, (Shape{2, 1, 2, 2}));
  EXPECT_EQ(values, (std::vector<float>{1, 0, 1, 0, 1, 0, 1, 0}));
  // Value 2 is class 1, 200 none; a column of the whole image holds half of each.
  std::ofstream(At("map")) << "item { name: 'a' } item { name: 'b' } item { name: 'c' label_id: 1 }";
  const auto [wide, parts] = planes(
      "annotated_data_param { single_class: false label_map_file: 'map' seg_resize_height: 2 seg_resize_width: 1 }");
  EXPECT_EQ(wide, (Shape{2, 1, 2, 1}));
  for (const float part : parts) EXPECT_NEAR(part, 0.5F, 0.01F);
  EXPECT_THAT(
      ErrorOf([&] { Open("top: \"p\" transform_param { expand_param { } resize_param { height: 8 width: 8 } }"); }),
      HasSubstr("neither expanded nor cropped"));
  EXPECT_THAT(ErrorOf([&] { planes("annotated_data_param { seg_scales: 64 }"); }), HasSubstr("leaves nothing"));
}

// The box of the left half lies where the label image is 1, whichever way the image was turned.
TEST_F(AnnotatedDataTest, ALabelImageIsCutAndTurnedLikeItsBoxes) {
  std::vector<AnnotatedDatum> records(8, RecordOf({{{0, 0, 0.5F, 1}, 1, 0, false}}, 64, 64));
  Image grey;
  grey.Resize(64, 64, 1);
  for (size_t i = 0; i < grey.pixels.size(); ++i) grey.pixels[i] = i % 64 < 32 ? 255 : 0;
  for (AnnotatedDatum& record : records) record.mutable_datum()->set_seg_label(EncodePng(grey));
  WriteRecords(records);
  const auto pipeline = Open(
      "top: \"picture\" transform_param { mirror: true resize_param { height: 64 width: 64 } } "
      "annotated_data_param { yolo_data_type: 1 yolo_data_jitter: 0.4 seg_scales: 1 }");
  OwnedTensor data(pipeline->types()[0]);
  OwnedTensor label(pipeline->types()[1]);
  OwnedTensor picture(pipeline->types()[2]);
  int turned = 0;
  for (int batch = 0; batch < 8; ++batch) {
    pipeline->Next(std::vector{data.tensor(), label.tensor(), picture.tensor()});
    for (size_t n = 0; n < 2; ++n) {
      const float* box = label.tensor().as<float>().data() + n * 1500;
      const float* row = picture.tensor().as<float>().data() + n * 64 * 64 + 32 * 64;
      double filled = 0;
      for (int x = 0; x < 64; ++x) {
        filled += row[x];
        const float place = (static_cast<float>(x) + 0.5F) / 64;
        const bool is_inside = std::abs(place - box[1]) < box[3] / 2 - 0.05F;
        EXPECT_TRUE(!is_inside || row[x] == 1) << batch << " " << x;
      }
      EXPECT_NEAR(filled / 64, box[3], 0.05);
      turned += box[1] > 0.5F ? 1 : 0;
    }
  }
  EXPECT_GT(turned, 2);
  EXPECT_LT(turned, 14);
}

TEST_F(AnnotatedDataTest, RawPicturesAreForcedToChannels) {
  AnnotatedDatum grey = RecordOf({kLeft});
  *grey.mutable_datum() = RawDatum(1, 20, 40, 0, 7);
  WriteRecords({RecordOf({kLeft}), grey});
  for (const char* fields : {"", "transform_param { force_color: true }"}) {
    const auto pipeline = Open(fields);
    ASSERT_EQ(pipeline->types()[0].shape, (Shape{2, 3, 20, 40})) << fields;
    const auto [data, rows] = Next(*pipeline);
    for (size_t i = 0; i < 3UL * 800; ++i) {
      ASSERT_EQ(data[i], i % 256) << i;
      ASSERT_EQ(data[3UL * 800 + i], i % 800 % 256) << i;
    }
  }
}

TEST_F(AnnotatedDataTest, Mistakes) {
  WriteRecords({RecordOf({kLeft}), RecordOf({kLeft}, 21, 40)});
  const auto pipeline = Open("");
  EXPECT_THAT(ErrorOf([&] { Next(*pipeline); }), HasSubstr("set transform_param.resize_param"));
  EXPECT_THAT(ErrorOf([&] { Open("transform_param { pad: 2 }"); }), HasSubstr("transform_param.pad"));
  EXPECT_THAT(ErrorOf([&] { Open("transform_param { caffe_yolo: true resize_param { height: 8 width: 8 } }"); }),
              HasSubstr("caffe_yolo is not supported"));
  // A fork's blur: its fields are read, and must not be asked for.
  const std::string blur =
      "resize_param { height: 8 width: 8 } distort_param { gaussian_size_min: 2 gaussian_sigma: 8 ";
  EXPECT_NO_THROW(Open("transform_param { " + blur + "gaussian_prob: 0 } }"));
  EXPECT_THAT(ErrorOf([&] { Open("transform_param { " + blur + "gaussian_prob: 0.5 } }"); }),
              HasSubstr("gaussian_prob must be 0"));
  std::filesystem::remove_all(At("db"));
  WriteDatabase(At("db"), {RawDatum(1, 2, 2, 0, 0)});
  EXPECT_THAT(ErrorOf([&] { Open(""); }), HasSubstr("not an AnnotatedDatum"));
}

}  // namespace
}  // namespace moka
