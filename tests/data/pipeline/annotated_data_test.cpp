// AnnotatedData: batches of records and lists with boxes, and their label images.
#include <cmath>
#include <fstream>

#include "data/pipeline/open_pipeline.h"
#include "tests/data/annotated_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

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

TEST_F(AnnotatedDataTest, YolosListsHaveCentersAndSides) {
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
  Image gray;
  gray.Resize(32, 32, 1);
  for (size_t i = 0; i < gray.pixels.size(); ++i) gray.pixels[i] = i % 32 < 16 ? 200 : 2;
  record.mutable_datum()->set_seg_label(EncodePng(gray));
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
  Image gray;
  gray.Resize(64, 64, 1);
  for (size_t i = 0; i < gray.pixels.size(); ++i) gray.pixels[i] = i % 64 < 32 ? 255 : 0;
  for (AnnotatedDatum& record : records) record.mutable_datum()->set_seg_label(EncodePng(gray));
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
  AnnotatedDatum gray = RecordOf({kLeft});
  *gray.mutable_datum() = RawDatum(1, 20, 40, 0, 7);
  WriteRecords({RecordOf({kLeft}), gray});
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
