// Moka's own records: what a schema says, records that keep to it and such that do not, and RecordData's tops, in which
// boxes, masks, instances and points stay where the picture has them.
#include <cmath>
#include <numeric>

#include "core/rng.h"
#include "core/text.h"
#include "data/import/copy_records.h"
#include "data/inspect/inspect.h"
#include "data/inspect/preview.h"
#include "data/pipeline/open_pipeline.h"
#include "data/records/record_database.h"
#include "data/transform/record_transform.h"
#include "tests/data/record_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(RecordLayers, GivesAllThatARecordHas) {
  WriteRecords({RecordOf(16, 24, {6, 4, 12, 8}, 2), RecordOf(16, 24, {0, 0, 3, 16}, 0)});
  const auto pipeline =
      Open("RecordData", Fields({"PICTURE", "LABELS", "TARGETS", "BOXES", "MASK", "INSTANCES", "POINTS"}, "", 2));
  const std::vector<TensorType>& types = pipeline->types();
  EXPECT_EQ(types[0].shape, (Shape{2, 3, 16, 24}));
  EXPECT_EQ(types[1].shape, (Shape{2}));
  EXPECT_EQ(types[2].shape, (Shape{2, 2}));
  EXPECT_EQ(types[3].shape, (Shape{1, 1, 4, 8}));
  EXPECT_EQ(types[4].shape, (Shape{2, 1, 16, 24}));
  EXPECT_EQ(types[5].shape, (Shape{2, 1, 16, 24}));
  EXPECT_EQ(types[6].shape, (Shape{2, 2, 3}));
  const auto tops = Next(*pipeline);
  EXPECT_THAT(tops[1], ElementsAre(2, 0));
  EXPECT_THAT(tops[2], ElementsAre(1.5F, -2, 1.5F, -2));
  EXPECT_THAT(tops[3], ElementsAre(0, 1, 1, 0, 0, 0.125F, 0.125F, 1, 0, 2, 2, 0.25F, 0.25F, 0.75F, 0.75F, 0,  //
                                   1, 1, 1, 0, 0, 0.125F, 0.125F, 1, 1, 2, 2, 0, 0, 0.125F, 1, 0));
  EXPECT_THAT(std::vector(tops[6].begin(), tops[6].begin() + 6), ElementsAre(0.5F, 0.5F, 1, 0.5F, 0, 0));
  for (size_t i = 0; i < 2 * 16 * 24; ++i) {
    const bool is_white = tops[0][i / 384 * 3 * 384 + i % 384] == 255;
    EXPECT_EQ(tops[4][i], is_white ? 2 : 0) << i;
    EXPECT_EQ(tops[5][i], is_white ? 2 : 0) << i;
  }
}

// Whatever is drawn, the white rectangle's pixels, class, instance, box and point lie in one place.
TEST_F(RecordLayers, EverythingFollowsThePicture) {
  std::vector<SampleRecord> records;
  RandomStream random(7, 1);
  for (int i = 0; i < 12; ++i) {
    const auto height = static_cast<int64_t>(40 + random.Below(30));
    const auto width = static_cast<int64_t>(40 + random.Below(30));
    const auto x = static_cast<int64_t>(random.Below(static_cast<uint64_t>(width - 20)));
    const auto y = static_cast<int64_t>(random.Below(static_cast<uint64_t>(height - 20)));
    records.push_back(RecordOf(height, width, {x, y, 16, 12}));
  }
  WriteRecords(records);
  const std::vector<std::pair<std::string, std::string>> ways = {
      {"transform_param { crop_size: 32 rand_resized_crop { scale_min: 0.3 } mirror: true }", ""},
      {"transform_param { crop_size: 32 resize_short: 40 mirror: true }", ""},
      {"transform_param { crop_h: 30 crop_w: 36 mirror: true }", "height: 44 width: 48"},
      {"transform_param { crop_size: 32 mirror: true augment { affine { degrees: 90 translate: 0.2 scale_min: 0.8 "
       "scale_max: 1.2 } } }",
       "height: 44 width: 44"},
      {"transform_param { mirror: true augment { elastic { alpha: 20 sigma: 5 } } }", "height: 48 width: 40"}};
  for (const auto& [transform, size] : ways) {
    const auto pipeline =
        Open("RecordData", Fields({"PICTURE", "BOXES", "MASK", "INSTANCES", "POINTS"}, transform, 12, size), TRAIN);
    const Shape shape = pipeline->types()[0].shape;
    int points = 0;
    int64_t white = 0;
    for (int epoch = 0; epoch < 8; ++epoch) {
      const auto tops = Next(*pipeline);
      const int64_t plane = shape[2] * shape[3];
      for (int64_t n = 0; n < shape[0]; ++n) {
        const float* row = nullptr;  // the rectangle's box
        for (size_t at = 0; at < tops[1].size(); at += 8) {
          if (tops[1][at] == static_cast<float>(n) && tops[1][at + 1] == 2) row = tops[1].data() + at;
        }
        for (int64_t i = 0; i < plane; ++i) {
          const float pixel = tops[0][static_cast<size_t>(3 * n * plane + i)];
          const float mask = tops[2][static_cast<size_t>(n * plane + i)];
          const float instance = tops[3][static_cast<size_t>(n * plane + i)];
          // Pixels at its border are blends.
          const bool is_white = pixel > 240;
          if (is_white && mask != 255) {
            EXPECT_EQ(mask, 2) << transform;
            EXPECT_EQ(instance, row == nullptr ? 0 : row[2]) << transform;
          }
          if (pixel < 15 && mask != 255) {
            EXPECT_EQ(mask, 0) << transform;
          }
          if (row == nullptr || !is_white) continue;
          ++white;
          const float x = (static_cast<float>(i % shape[3]) + 0.5F) / static_cast<float>(shape[3]);
          const float y = (static_cast<float>(i / shape[3]) + 0.5F) / static_cast<float>(shape[2]);
          const float pixel_x = 1.0F / static_cast<float>(shape[3]);
          const float pixel_y = 1.0F / static_cast<float>(shape[2]);
          EXPECT_TRUE(x > row[3] - pixel_x && x < row[5] + pixel_x) << transform;
          EXPECT_TRUE(y > row[4] - pixel_y && y < row[6] + pixel_y) << transform;
        }
        if (row != nullptr) {
          ImageWindow bounds{shape[3], shape[2], 0, 0};  // until a pixel is seen; then corners
          for (int64_t i = 0; i < plane; ++i) {
            if (tops[3][static_cast<size_t>(n * plane + i)] != row[2]) continue;
            bounds = {std::min(bounds.x, i % shape[3]), std::min(bounds.y, i / shape[3]),
                      std::max(bounds.width, i % shape[3] + 1), std::max(bounds.height, i / shape[3] + 1)};
          }
          const auto width = static_cast<float>(shape[3]);
          const auto height = static_cast<float>(shape[2]);
          EXPECT_THAT(std::vector(row + 3, row + 7),
                      ElementsAre(static_cast<float>(bounds.x) / width, static_cast<float>(bounds.y) / height,
                                  static_cast<float>(bounds.width) / width, static_cast<float>(bounds.height) / height))
              << transform;
        }
        const float* point = tops[4].data() + n * 6;
        const auto px = static_cast<int64_t>(point[0] * static_cast<float>(shape[3]));
        const auto py = static_cast<int64_t>(point[1] * static_cast<float>(shape[2]));
        if (point[2] == 0 || px < 2 || py < 2 || px >= shape[3] - 2 || py >= shape[2] - 2) continue;
        ++points;
        EXPECT_GT(tops[0][static_cast<size_t>(3 * n * plane + py * shape[3] + px)], 200) << transform;
      }
    }
    EXPECT_GT(points, 20) << transform;
    EXPECT_GT(white, 1000) << transform;
  }
}

TEST_F(RecordLayers, RawPicturesAreLikeFiles) {
  const SampleRecord record = RecordOf(12, 10, {2, 3, 4, 5});
  WriteRecords({record, RawOf(record)});
  const auto tops = Next(
      *Open("RecordData", Fields({"PICTURE", "MASK"}, "transform_param { crop_size: 8 }", 2, "height: 9 width: 14")));
  for (size_t i = 0; i < 3 * 64; ++i) ASSERT_EQ(tops[0][i], tops[0][i + 3 * 64]) << i;
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(tops[1][i], tops[1][i + 64]) << i;
}

TEST_F(RecordLayers, EveryRecordIsHeldAgainstTheCrop) {
  WriteRecords({RecordOf(20, 24, {6, 4, 12, 8}), RecordOf(10, 12, {2, 3, 6, 4})});
  const std::string expected =
      StrCat("record \"00000001_r\" (index 1) of ", At("db").string(),
             ": transform_param.crop_size: a crop of 16x16 (height x width) does not fit an image of 10x12 (height x width)");
  for (const Phase phase : {TRAIN, TEST}) {
    const auto pipeline =
        Open("RecordData", Fields({"PICTURE", "MASK"}, "transform_param { crop_size: 16 }", 2), phase);
    EXPECT_EQ(pipeline->types()[0].shape, (Shape{2, 3, 16, 16}));
    EXPECT_EQ(ErrorOf([&] { Next(*pipeline); }), expected);
  }
}

// Whatever the file's order: crowds lie beneath difficult boxes, these beneath the others, small ones of these on top.
TEST_F(RecordLayers, SmallInstancesLieOnTopAndCrowdsBeneath) {
  SampleRecord record = PictureRecord(Picture(8, 8, 1, 1));
  const auto add = [&](const ImageWindow& window) -> SampleBox& {
    SampleBox& box = *record.add_box();
    box.set_label(1);
    box.set_xmin(static_cast<float>(window.x) / 8);
    box.set_ymin(static_cast<float>(window.y) / 8);
    box.set_xmax(static_cast<float>(window.x + window.width) / 8);
    box.set_ymax(static_cast<float>(window.y + window.height) / 8);
    AddRuns(window, 8, 8, box);
    return box;
  };
  add({1, 1, 2, 2});
  add({2, 2, 2, 2});  // as large as the one before it, and so over it
  add({0, 0, 6, 6});
  add({0, 0, 8, 4}).set_difficult(true);  // of fewer pixels than the box that it lies beneath
  add({0, 0, 8, 8}).set_crowd(true);
  WriteRecords({record}, "version: 1 boxes: true box_masks: true");
  const auto shown = [&](const std::string& fields) {
    return Next(*Open("RecordData", Fields({"PICTURE", "INSTANCES", "BOXES"}, "", 1, fields)));
  };
  const std::vector<float> kept = {3, 3, 3, 3, 3, 3, 4, 4,  //
                                   3, 1, 1, 3, 3, 3, 4, 4,  //
                                   3, 1, 2, 2, 3, 3, 4, 4,  //
                                   3, 3, 2, 2, 3, 3, 4, 4,  //
                                   3, 3, 3, 3, 3, 3, 5, 5,  //
                                   3, 3, 3, 3, 3, 3, 5, 5,  //
                                   5, 5, 5, 5, 5, 5, 5, 5,  //
                                   5, 5, 5, 5, 5, 5, 5, 5};
  const auto without = [&](float least) {
    std::vector<float> instances = kept;
    std::ranges::replace_if(
        instances, [least](float row) { return row >= least; }, 0.0F);
    return instances;
  };
  const std::vector<float> rows = {0, 1, 1, 0.125F, 0.125F, 0.375F, 0.375F, 0,  //
                                   0, 1, 2, 0.25F,  0.25F,  0.5F,   0.5F,   0,  //
                                   0, 1, 3, 0,      0,      0.75F,  0.75F,  0,  //
                                   0, 1, 4, 0.75F,  0,      1,      0.5F,   1,  //
                                   0, 1, 5, 0,      0.5F,   1,      1,      2};
  const auto rows_without = [&](size_t count) {
    std::vector<float> left(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(8 * count));
    left.resize(rows.size(), -1.0F);
    return left;
  };
  const auto crowds = shown("keep_crowd: true");
  EXPECT_EQ(crowds[1], kept);
  EXPECT_EQ(crowds[2], rows);
  const auto no_crowds = shown("");
  EXPECT_EQ(no_crowds[1], without(5));
  EXPECT_EQ(no_crowds[2], rows_without(4));
  const auto easy = shown("keep_difficult: false");
  EXPECT_EQ(easy[1], without(4));
  EXPECT_EQ(easy[2], rows_without(3));
}

TEST_F(RecordLayers, BoxesWithoutARowAreToldOnce) {
  WriteRecords(std::vector<SampleRecord>(3, RecordOf(16, 16, {4, 4, 8, 8})));
  const auto log = [&](const std::vector<std::string>& outputs, const std::string& fields) {
    SetLogFile(At("log"));
    {
      const auto pipeline = Open("RecordData", Fields(outputs, "", 3, fields));
      for (int i = 0; i < 4; ++i) Next(*pipeline);
    }
    SetLogFile({});
    std::string text = ReadFile(At("log"));
    std::filesystem::remove(At("log"));
    return text;
  };
  const std::string told = log({"PICTURE", "BOXES"}, "max_boxes: 1");
  const size_t first = told.find("layer \"data\": record \"0000000");
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_THAT(told,
              HasSubstr(StrCat("of ", At("db").string(), " has 2 boxes, max_boxes is 1: the others are left out")));
  EXPECT_EQ(told.find("max_boxes is", told.find("max_boxes is") + 1), std::string::npos) << told;
  EXPECT_THAT(log({"PICTURE", "BOXES"}, "max_boxes: 2"), testing::Not(HasSubstr("max_boxes")));
  EXPECT_THAT(log({"PICTURE", "INSTANCES"}, ""), testing::Not(HasSubstr("max_boxes")));
}

TEST_F(RecordLayers, BoxesAreChosen) {
  SampleRecord record = RecordOf(16, 16, {4, 4, 8, 8});
  SampleBox& crowd = *record.add_box();
  crowd.set_label(1);
  crowd.set_xmax(1);
  crowd.set_ymax(1);
  crowd.set_crowd(true);
  WriteRecords({record});
  const auto classes = [&](const std::string& fields, const std::string& more = "") {
    const auto rows = Next(*Open("RecordData", Fields({"PICTURE", "BOXES"}, more, 1, fields)))[1];
    std::vector<float> found;
    for (size_t at = 0; at < rows.size(); at += 8) {
      if (rows[at] >= 0) found.push_back(rows[at + 1]);
    }
    return found;
  };
  EXPECT_THAT(classes(""), ElementsAre(1, 2));
  EXPECT_THAT(classes("keep_difficult: false"), ElementsAre(2));
  EXPECT_THAT(classes("keep_difficult: false keep_crowd: true"), ElementsAre(2, 1));
  EXPECT_THAT(classes("max_boxes: 1"), ElementsAre(1));
  // The last number says what a box is: difficult 1, crowd 2.
  const auto rows = Next(*Open("RecordData", Fields({"PICTURE", "BOXES"}, "", 1, "keep_crowd: true")))[1];
  EXPECT_THAT((std::vector<float>{rows[7], rows[15], rows[23]}), ElementsAre(1, 0, 2));
  // A crop of 6 about the centre leaves 36 of the rectangle's 64 pixels.
  EXPECT_THAT(classes("min_visible: 0.56", "transform_param { crop_size: 6 }"), ElementsAre(2));
  EXPECT_THAT(classes("min_visible: 0.57", "transform_param { crop_size: 6 }"), ElementsAre());
}

// 300 boxes of one pixel each: numbers that do not fit into a byte.
TEST_F(RecordLayers, InstancesMayBeMany) {
  SampleRecord record;
  record.set_version(1);
  record.set_picture(EncodePng(Picture(20, 15, 1, 1)));
  for (int64_t i = 0; i < 300; ++i) {
    SampleBox& box = *record.add_box();
    box.set_label(1);
    box.set_xmin(static_cast<float>(i % 15) / 15);
    box.set_ymin(static_cast<float>(i / 15) / 20);
    box.set_xmax(static_cast<float>(i % 15 + 1) / 15);
    box.set_ymax(static_cast<float>(i / 15 + 1) / 20);
    AddRuns({i % 15, i / 15, 1, 1}, 20, 15, box);
  }
  WriteRecords({record}, "version: 1 boxes: true box_masks: true");
  const auto tops = Next(*Open("RecordData", Fields({"PICTURE", "INSTANCES", "BOXES"}, "")));
  std::vector<float> expected(300);
  std::iota(expected.begin(), expected.end(), 1.0F);
  EXPECT_EQ(tops[1], expected);
  EXPECT_EQ(tops[2].size(), 300U * 8);
}

TEST_F(RecordLayers, SameBatchesForAnyWorkersAndWhenResumed) {
  std::vector<SampleRecord> records;
  for (int i = 0; i < 9; ++i) records.push_back(RecordOf(24 + i, 30, {i, i, 10, 9}, i % 3));
  WriteRecords(records);
  LayerParameter layer =
      Layer("RecordData", Fields({"PICTURE", "LABELS", "BOXES", "INSTANCES"},
                                 "transform_param { crop_size: 16 mirror: true rand_resized_crop {} augment { affine { "
                                 "degrees: 20 } } } sampling_param { balance: CLASSES }",
                                 4));
  layer.mutable_data_param()->set_shuffle(true);
  const auto hashes = [&](int64_t threads, int64_t from) {
    const auto pipeline = OpenPipeline(layer, {.phase = TRAIN, .seed = 3, .threads = threads, .base_folder = folder_});
    pipeline->Seek(from * 4);
    std::vector<uint64_t> all;
    for (int64_t i = from; i < 12; ++i) all.push_back(HashBatch(pipeline->NextInPlace()));
    return all;
  };
  const std::vector<uint64_t> one = hashes(1, 0);
  EXPECT_EQ(hashes(4, 0), one);
  EXPECT_EQ(hashes(2, 5), std::vector(one.begin() + 5, one.end()));
  EXPECT_NE(one[0], one[1]);
}

TEST_F(RecordLayers, RecordsThatBreakTheSchemaAreSaid) {
  const SampleRecord good = RecordOf(8, 8, {2, 2, 4, 4});
  const auto fault = [&](const std::function<void(SampleRecord&)>& change) {
    SampleRecord record = good;
    change(record);
    return FaultOf(record);
  };
  EXPECT_THAT(fault([](auto& r) { r.set_version(2); }), HasSubstr("it is of version 2, this program reads 1..1"));
  EXPECT_THAT(fault([](auto& r) { r.clear_version(); }), HasSubstr("it is of version 0"));
  EXPECT_THAT(fault([](auto& r) { r.clear_picture(); }), HasSubstr("it has no picture"));
  EXPECT_THAT(fault([](auto& r) { r.add_label(0); }), HasSubstr("it has 2 labels, by the database's schema 1"));
  EXPECT_THAT(fault([](auto& r) { r.set_label(0, 3); }), HasSubstr("label 0 is 3, expected 0..2"));
  EXPECT_THAT(fault([](auto& r) { r.set_label(0, -1); }), HasSubstr("label 0 is -1, expected 0..2"));
  EXPECT_THAT(fault([](auto& r) { r.clear_target(); }), HasSubstr("it has 0 targets, by the database's schema 2"));
  EXPECT_THAT(fault([](auto& r) { r.set_target(0, NAN); }), HasSubstr("a target is not a finite number"));
  EXPECT_THAT(fault([](auto& r) { r.add_point(); }), HasSubstr("it has 3 points"));
  EXPECT_THAT(fault([](auto& r) { r.mutable_point(0)->set_x(INFINITY); }), HasSubstr("a point is not of finite"));
  EXPECT_THAT(fault([](auto& r) { r.clear_text(); }), HasSubstr("it has 0 texts"));
  EXPECT_THAT(fault([](auto& r) { r.clear_mask(); }), HasSubstr("it has no mask"));
  EXPECT_THAT(fault([](auto& r) { r.mutable_box(1)->set_xmin(0.9F); }), HasSubstr("box 1 is from (0.9, 0.25)"));
  EXPECT_THAT(fault([](auto& r) { r.mutable_box(1)->set_ymax(NAN); }), HasSubstr("expected fractions"));
  EXPECT_THAT(fault([](auto& r) { r.mutable_box(0)->set_label(3); }),
              HasSubstr("box 0 has the class 3, expected 1..2"));
  EXPECT_THAT(fault([](auto& r) { r.set_height(9); }), HasSubstr("a picture of 0x9x0"));
  EXPECT_THAT(FaultOf(good, "version: 1"), HasSubstr("it has 1 labels, by the database's schema 0"));
}

TEST_F(RecordLayers, DamagedBytesAreAnError) {
  const std::string wire = RecordOf(8, 8, {2, 2, 4, 4}).SerializeAsString();
  SampleSchema schema;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kRecordSchema, &schema));
  SampleRecord record;
  EXPECT_NO_THROW(ParseSample(wire, schema, record));
  for (size_t length = 0; length < wire.size(); ++length) {
    EXPECT_THAT(ErrorOf([&] { ParseSample(wire.substr(0, length), schema, record); }), testing::Not("")) << length;
  }
}

TEST_F(RecordLayers, MasksMustFitThePicture) {
  SampleRecord record = RecordOf(8, 8, {2, 2, 4, 4});
  record.set_mask(EncodePng(Picture(8, 9, 1, 1)));
  WriteRecords({record});
  EXPECT_THAT(OpenError("RecordData", Fields({"PICTURE", "MASK"}, "")), HasSubstr("its mask is 8x9, its picture 8x8"));
  record = RecordOf(8, 8, {2, 2, 4, 4});
  record.mutable_box(1)->add_run(7);
  WriteRecords({record}, kRecordSchema, "runs");
  std::string fields = Fields({"PICTURE", "INSTANCES"}, "");
  fields.replace(fields.find("'db'"), 4, "'runs'");
  EXPECT_THAT(OpenError("RecordData", fields), HasSubstr("the runs of box 1 go on beyond its picture of 8x8 pixels"));
  const LmdbVerdict verdict = VerifyLmdb(At("runs"));
  ASSERT_EQ(verdict.bad.size(), 1U);
  EXPECT_THAT(verdict.bad[0].reason, HasSubstr("the runs of box 1 go on beyond"));
  EXPECT_EQ(VerifyLmdb(At("db")).bad.size(), 1U);
  InstancePictures instances;
  record.mutable_box(1)->mutable_run()->Clear();
  record.mutable_box(1)->add_run(63);
  EXPECT_THAT(ErrorOf([&] { DrawInstances(record, 8, 8, instances); }), HasSubstr("the runs of box 1 end before"));
  record.mutable_box(1)->set_run(0, 0);
  record.mutable_box(1)->add_run(64);
  for (int i = 0; i < 256; ++i) *record.add_box() = record.box(1);
  EXPECT_THAT(ErrorOf([&] { DrawInstances(record, 8, 8, instances); }), HasSubstr("more than 256 deep"));
}

TEST_F(RecordLayers, FieldsThatDoNotGoAreErrors) {
  WriteRecords({RecordOf(8, 8, {2, 2, 4, 4})});
  const auto error = [&](const std::vector<std::string>& outputs, const std::string& more,
                         const std::string& record = "") {
    return OpenError("RecordData", Fields(outputs, more, 1, record));
  };
  EXPECT_THAT(error({"PICTURE"}, "top: 'more'"), HasSubstr("is given 1 times, the layer has 2 tops"));
  EXPECT_THAT(error({"MASK", "PICTURE"}, ""), HasSubstr("must begin with PICTURE"));
  EXPECT_THAT(error({"PICTURE", "MASK", "MASK"}, ""), HasSubstr("has MASK twice"));
  EXPECT_THAT(error({"PICTURE"}, "transform_param { pad: 2 }"), HasSubstr("RecordData does not read"));
  EXPECT_THAT(error({"PICTURE"}, "transform_param { mean_file: 'm' }"), HasSubstr("RecordData does not read"));
  EXPECT_THAT(error({"PICTURE"}, "", "height: 8"), HasSubstr("height and width are 8 and 0"));
  EXPECT_THAT(error({"PICTURE"}, "transform_param { resize_short: 8 }", "height: 8 width: 8"),
              HasSubstr("does not go with record_data_param.height"));
  EXPECT_THAT(error({"PICTURE"}, "", "min_visible: 1.5"), HasSubstr("is 1.5, expected 0..1"));
  EXPECT_THAT(error({"PICTURE"}, "", "ignore_label: 256"), HasSubstr("is 256, at most 255"));
  EXPECT_THAT(error({"PICTURE"}, "transform_param { crop_size: 9 }"), HasSubstr("does not fit"));
  WriteRecords({RecordOf(8, 8, {2, 2, 4, 4})}, "version: 2", "later");
  WriteDatabase(At("datums"), {RawDatum(1, 2, 2, 0, 1)});
  for (const auto& [name, what] : {std::pair{"later", "records are of version 2, this program reads up to 1"},
                                   std::pair{"datums", "schema.prototxt"}}) {
    std::string fields = Fields({"PICTURE"}, "");
    fields.replace(fields.find("'db'"), 4, std::string("'") + name + "'");
    EXPECT_THAT(OpenError("RecordData", fields), HasSubstr(what));
  }
}

TEST_F(RecordLayers, TextsAreNumbersOfTheirWords) {
  std::vector<SampleRecord> records(3, RecordOf(16, 24, {6, 4, 12, 8}, 2));
  records[0].set_text(0, "A white dog!");
  records[1].set_text(0, "white, unheard white dog");  // cut: the mark takes the last place
  records[2].set_text(0, "");
  WriteRecords(records);
  Write("words.txt", "<pad>\n<s>\n</s>\n<unk>\nwhite\ndog\n!\na\n");
  const std::string fields = "vocabulary: 'words.txt' text_length: 5 ";
  const auto pipeline = Open("RecordData", Fields({"PICTURE", "TEXTS"}, "", 3, fields));
  EXPECT_EQ(pipeline->types()[1].shape, (Shape{3, 1, 5}));
  EXPECT_THAT(Next(*pipeline)[1], ElementsAre(7, 4, 5, 6, 2,  //
                                              4, 3, 3, 4, 2,  //
                                              2, 0, 0, 0, 0));
  const auto blanks = Open("RecordData", Fields({"PICTURE", "TEXTS"}, "", 1, fields + "tokens: BLANKS "));
  EXPECT_THAT(Next(*blanks)[1], ElementsAre(3, 4, 3, 2, 0));
}

TEST_F(RecordLayers, TextsWantAVocabularyAndUtf8) {
  WriteRecords({RecordOf(16, 24, {6, 4, 12, 8}, 2)});
  Write("words.txt", "<pad>\n<s>\n</s>\n<unk>\nwhite\n");
  const auto error = [&](const std::vector<std::string>& outputs, const std::string& fields) {
    return ErrorOf([&] { Open("RecordData", Fields(outputs, "", 1, fields)); });
  };
  EXPECT_THAT(error({"PICTURE", "TEXTS"}, ""), HasSubstr("record_data_param.vocabulary is not given"));
  EXPECT_THAT(error({"PICTURE"}, "vocabulary: 'words.txt'"), HasSubstr("of the output TEXTS, which no top has"));
  EXPECT_THAT(error({"PICTURE", "TEXTS"}, "vocabulary: 'none.txt'"), HasSubstr("none.txt"));
  EXPECT_THAT(error({"PICTURE", "TEXTS"}, "vocabulary: 'words.txt' text_length: 1"),
              HasSubstr("text_length is 1, expected 2..65536"));
  std::vector<SampleRecord> records(1, RecordOf(16, 24, {6, 4, 12, 8}, 2));
  records[0].set_text(0, "caf\xE9");
  WriteRecords(records, kRecordSchema, "latin");
  const std::string layer = Fields({"PICTURE", "TEXTS"}, "", 1, "vocabulary: 'words.txt' ");
  const auto pipeline =
      Open("RecordData", "data_param { source: 'latin' batch_size: 1 } " + layer.substr(layer.find("record_data")));
  EXPECT_THAT(ErrorOf([&] { Next(*pipeline); }), HasSubstr("UTF-8"));
}

TEST_F(RecordLayers, OutputsThatRecordsHaveNotAreErrors) {
  SampleRecord record;
  record.set_version(1);
  record.set_picture(EncodePng(Picture(4, 4, 1, 1)));
  WriteRecords({record}, "version: 1");
  for (const char* output : {"LABELS", "TARGETS", "BOXES", "MASK", "INSTANCES", "POINTS"}) {
    EXPECT_THAT(OpenError("RecordData", Fields({"PICTURE", output}, "")),
                HasSubstr(std::string("wants ") + output + ", which the records of"));
  }
  EXPECT_EQ(Next(*Open("RecordData", Fields({"PICTURE"}, "")))[0].size(), 16U);
}

TEST_F(RecordLayers, SetsAreLookedAtAndCopied) {
  std::vector<SampleRecord> records;
  for (int i = 0; i < 6; ++i) records.push_back(RecordOf(16, 16, {2, 2, 5, 5}, i % 2));
  WriteRecords(records);
  const LmdbSummary summary = InspectLmdb(At("db"));
  EXPECT_EQ(summary.labels, (std::map<int64_t, int64_t>{{0, 3}, {1, 3}}));
  EXPECT_EQ(summary.boxes, (std::map<int64_t, int64_t>{{1, 6}, {2, 6}}));
  EXPECT_THAT(summary.label_names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(summary.box_names, ElementsAre("none", "cell", "clump"));
  EXPECT_EQ(summary.encoded, 6);
  EXPECT_EQ(summary.boxless, 0);
  EXPECT_EQ(VerifyLmdb(At("db")).bad.size(), 0U);
  SplitLmdb(At("db"), At("part_").string(), ParseParts("one=0.5,two=0.5"), true, {});
  EXPECT_EQ(InspectLmdb(At("part_one")).labels, (std::map<int64_t, int64_t>{{0, 2}, {1, 2}}));
  EXPECT_EQ(InspectLmdb(At("part_two")).labels, (std::map<int64_t, int64_t>{{0, 1}, {1, 1}}));
}

TEST_F(RecordLayers, PreviewsShowTheirObjects) {
  WriteRecords({RecordOf(32, 32, {8, 8, 16, 16})});
  const Image plain = PreviewLayer(Layer("RecordData", Fields({"PICTURE"}, "")), {.epochs = 1, .base_folder = folder_});
  for (const char* output : {"BOXES", "MASK", "INSTANCES", "POINTS"}) {
    const Image shown =
        PreviewLayer(Layer("RecordData", Fields({"PICTURE", output}, "")), {.epochs = 1, .base_folder = folder_});
    EXPECT_NE(shown.pixels, plain.pixels) << output;
  }
}

}  // namespace
}  // namespace moka
