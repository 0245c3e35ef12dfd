// COCO's key points from the annotation file to RecordData's top, against an independent reading of the format
// (tests/golden/make_keypoint_goldens.py), and files that are wrong.
#include <cmath>
#include <map>

#include "data/import/import.h"
#include "data/inspect/inspect.h"
#include "data/inspect/preview.h"
#include "data/pipeline/open_pipeline.h"
#include "data/records/sample_record.h"
#include "tests/data/picture_fixture.h"
#include "tests/data/sample_fixture.h"

namespace moka {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kPoints = 5;  // of a box
constexpr int64_t kRows = 3;    // the most boxes of a picture

// Rows of a sample as the golden has them: kRows x kPoints x (x, y, flag).
std::vector<float> RowsOf(const Json& objects, const std::string& part) {
  std::vector<float> rows;
  for (const Json& object : objects) {
    for (const Json& point : object.at(part)) {
      for (const Json& number : point) rows.push_back(number.get<float>());
    }
  }
  rows.resize(kRows * kPoints * 3, 0.0F);
  return rows;
}

class KeyPoints : public SampleImports {
 protected:
  void SetUp() override {
    std::ifstream(MOKA_SOURCE_DIR "/tests/golden/data_keypoints.json") >> golden_;
    for (const Json& image : golden_.at("coco").at("images")) {
      Write("p/" + image.at("file_name").get<std::string>(),
            EncodePng(Gradient(image.at("width"), image.at("height"), 3)));
    }
  }
  void ImportGolden() const {
    Write("coco.json", golden_.at("coco").dump());
    Import(Source(), At("db"), {});
  }
  std::string Source() const { return StrCat("coco:", Text("coco.json"), ",", Text("p")); }
  // Returns the words of an import about the golden's file with its first annotation changed.
  std::string FaultWith(const std::function<void(Json&)>& change) const {
    Json coco = golden_.at("coco");
    change(coco.at("annotations")[0]);
    return FaultOf(coco.dump());
  }
  std::string FaultOf(const std::string& file) const {
    Write("coco.json", file);
    return ErrorOf([&] { Import(Source(), At("db"), {}); });
  }
  LayerParameter Layer(const std::string& more) const {
    LayerParameter layer;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "name: 'data' type: 'RecordData' top: 'data' top: 'points' top: 'boxes' data_param { source: 'db' batch_size: "
        "2 } "
        "record_data_param { output: PICTURE output: POINTS output: BOXES height: 16 width: 24 keep_crowd: true } " +
            more,
        &layer));
    return layer;
  }

  Json golden_;
};

TEST_F(KeyPoints, AreKeptAsTheFileHasThem) {
  ImportGolden();
  const SampleSchema schema = Schema();
  EXPECT_THAT(schema.box_point(), ElementsAre("nose", "left_eye", "right_eye", "left_hand", "right_hand"));
  ASSERT_EQ(schema.skeleton_size(), 4);
  EXPECT_EQ(schema.skeleton(2).from(), 3U);
  EXPECT_EQ(schema.skeleton(2).to(), 1U);
  const std::vector<SampleRecord> records = Records();
  ASSERT_EQ(records.size(), 2U);
  for (const auto& [name, record] : {std::pair{"a.png", records[0]}, {"b.png", records[1]}}) {
    const Json& objects = golden_.at("images").at(name);
    ASSERT_EQ(static_cast<size_t>(record.box_size()), objects.size());
    for (int i = 0; i < record.box_size(); ++i) {
      const Json& object = objects[static_cast<size_t>(i)];
      const SampleBox& box = record.box(i);
      EXPECT_EQ(box.label(), object.at("label"));
      EXPECT_EQ(box.point_size(), box.label() == 1 ? kPoints : 0) << "a dog has none";
      for (int k = 0; k < box.point_size(); ++k) {
        const Json& point = object.at("points")[static_cast<size_t>(k)];
        EXPECT_FLOAT_EQ(box.point(k).x(), point[0].get<float>());
        EXPECT_FLOAT_EQ(box.point(k).y(), point[1].get<float>());
        EXPECT_EQ(box.point(k).visible(), point[2] == 2);
        EXPECT_EQ(box.point(k).hidden(), point[2] == 1);
      }
    }
  }
}

TEST_F(KeyPoints, FollowTheirPictureAndChangeSidesInAMirror) {
  ImportGolden();
  const std::vector<SampleRecord> records = Records();
  std::map<std::string, int> seen;
  const auto pipeline =
      OpenPipeline(Layer("transform_param { mirror: true }"), {.phase = TRAIN, .seed = 3, .base_folder = folder_});
  EXPECT_FALSE(pipeline->statistics().can_cache) << "RecordData refuses data_param.cache_mb";
  ASSERT_EQ(pipeline->types()[1].shape, (Shape{2, kRows, kPoints, 3}));
  for (int epoch = 0; epoch < 16; ++epoch) {
    const std::vector<std::vector<float>> tops = Next(*pipeline);
    for (const auto& [name, item] : {std::pair{"a.png", 0}, {"b.png", 1}}) {
      const auto begin = tops[1].begin() + item * kRows * kPoints * 3;
      const std::vector<float> found(begin, begin + kRows * kPoints * 3);
      const Json& objects = golden_.at("images").at(name);
      const float xmin = tops[2][static_cast<size_t>(item * kRows * 8 + 3)];
      const bool is_mirrored = std::abs(xmin - records[static_cast<size_t>(item)].box(0).xmin()) > 1e-3F;
      EXPECT_THAT(found,
                  testing::Pointwise(testing::FloatNear(1e-6F), RowsOf(objects, is_mirrored ? "mirrored" : "points")));
      ++seen[StrCat(name, is_mirrored ? " mirrored" : "")];
    }
  }
  EXPECT_EQ(seen.size(), 4U);
}

TEST_F(KeyPoints, ThatLeaveThePictureAreNotLabelled) {
  ImportGolden();
  const auto pipeline =
      OpenPipeline(Layer("transform_param { crop_h: 8 crop_w: 24 }"), {.phase = TEST, .base_folder = folder_});
  const std::vector<float> points = Next(*pipeline)[1];
  // Rows 7.5 to 22.5 of a.png. Of its first person the nose and the right hand lie below, the right eye is at row 11.5
  // and hidden; the left hand was not labelled.
  const auto near = [](float value) { return testing::FloatNear(value, 1e-6F); };
  EXPECT_THAT(std::vector(points.begin(), points.begin() + 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(std::vector(points.begin() + 6, points.begin() + 15),
              ElementsAre(near(11.5F / 40), near(4.0F / 15), 1, 0, 0, 0, 0, 0, 0));
}

TEST_F(KeyPoints, AreCountedAndShown) {
  ImportGolden();
  const LmdbSummary summary = InspectLmdb(At("db"));
  std::vector<std::string> lines;
  for (const PointCount& point : summary.points)
    lines.push_back(StrCat(point.name, " ", point.visible, " ", point.hidden));
  EXPECT_THAT(lines, ElementsAre("nose 1 1", "left_eye 1 0", "right_eye 1 1", "left_hand 2 0", "right_hand 2 1"));
  EXPECT_EQ(VerifyLmdb(At("db")).bad.size(), 0U);
  LayerParameter plain = Layer("");
  const Image with = PreviewLayer(plain, {.epochs = 1, .base_folder = folder_});
  plain.mutable_record_data_param()->clear_output();
  plain.mutable_record_data_param()->add_output(RecordDataParameter::PICTURE);
  plain.mutable_record_data_param()->add_output(RecordDataParameter::BOXES);
  plain.mutable_top()->RemoveLast();
  EXPECT_NE(PreviewLayer(plain, {.epochs = 1, .base_folder = folder_}).pixels, with.pixels);
}

TEST_F(KeyPoints, FaultsNameTheirAnnotation) {
  const std::string json = Text("coco.json") + ": annotation 10";
  EXPECT_EQ(FaultWith([](Json& a) { a["keypoints"].erase(0); }),
            json + ": its keypoints are 14 numbers, expected three a point");
  EXPECT_EQ(FaultWith([](Json& a) {
              a["keypoints"] = {1, 2, 2, 3, 4, 1};
              a["num_keypoints"] = 2;
            }),
            json + " has 2 key points, its category \"person\" 5");
  EXPECT_EQ(FaultWith([](Json& a) { a["category_id"] = 18; }), json + " has 5 key points, its category \"dog\" 0");
  EXPECT_EQ(FaultWith([](Json& a) { a["num_keypoints"] = 5; }), json + ": its num_keypoints is 5, and 4 are labelled");
  EXPECT_EQ(FaultWith([](Json& a) { a.erase("keypoints"); }), json + ": its num_keypoints is 4, and 0 are labelled");
  EXPECT_EQ(FaultWith([](Json& a) { a["keypoints"][5] = 3; }),
            json + ": key point 2 has the flag 3, expected 0, 1 or 2");
  EXPECT_EQ(FaultWith([](Json& a) { a["keypoints"][3] = 1e300; }),
            json + ": key point 2 is at (1e+300, 7), which no picture holds");
  EXPECT_EQ(FaultWith([](Json& a) { a["keypoints"][4] = "x"; }), json + ": its keypoints has \"x\", expected numbers");
  EXPECT_EQ(FaultWith([](Json& a) { a["keypoints"] = 3; }), json + ": its keypoints are no list");
  // Python writes what JSON has not.
  Json coco = golden_.at("coco");
  coco["annotations"][1]["keypoints"][0] = "NaN";
  std::string text = coco.dump();
  text.replace(text.find("\"NaN\""), 5, "NaN");
  EXPECT_THAT(FaultOf(text),
              testing::AllOf(testing::StartsWith(Text("coco.json") + ": this is no JSON at line 1, column "),
                             testing::HasSubstr("[N'"), testing::EndsWith(", behind annotation 10")));
}

TEST_F(KeyPoints, FaultsOfCategoriesAreNamed) {
  const std::string json = Text("coco.json") + ": ";
  const auto fault = [&](const std::function<void(Json&)>& change) {
    Json coco = golden_.at("coco");
    change(coco.at("categories"));
    return FaultOf(coco.dump());
  };
  EXPECT_EQ(fault([](Json& c) {
              c[1]["skeleton"][0] = {0, 2};
            }),
            json + "category 1: its skeleton has [0,2], expected two of 1..5");
  EXPECT_EQ(fault([](Json& c) {
              c[1]["skeleton"][0] = {1, 6};
            }),
            json + "category 1: its skeleton has [1,6], expected two of 1..5");
  EXPECT_EQ(fault([](Json& c) { c[1]["keypoints"][0] = "left_eye"; }),
            json + "category 1: has the key point \"left_eye\" twice");
  EXPECT_EQ(fault([](Json& c) { c[1]["keypoints"][0] = 7; }),
            json + "category 1: its keypoints have 7, expected names");
  EXPECT_EQ(fault([](Json& c) { c[0]["keypoints"] = {"tail"}; }),
            json + "the category \"dog\" has other key points than the one before it");
}

TEST_F(KeyPoints, RecordsAndSchemasThatDoNotAgreeAreSaid) {
  ImportGolden();
  SampleRecord record = Records()[0];
  const SampleSchema schema = Schema();
  const auto fault = [&] {
    SampleRecord read;
    return ErrorOf([&] { ParseSample(record.SerializeAsString(), schema, read); });
  };
  record.mutable_box(1)->mutable_point()->RemoveLast();
  EXPECT_EQ(fault(), "box 1 has 4 points, by the database's schema 5");
  record = Records()[0];
  record.mutable_box(1)->mutable_point(2)->set_y(NAN);
  EXPECT_EQ(fault(), "a point of box 1 is not of finite numbers");
  const auto schema_fault = [&](const std::string& text) {
    Write("s/schema.prototxt", "version: 1 " + text);
    return ErrorOf([&] { ReadSampleSchema(At("s")); });
  };
  EXPECT_THAT(schema_fault("boxes: true point: 'a' box_point: 'b'"),
              HasSubstr("points belong to the picture or to its boxes"));
  EXPECT_THAT(schema_fault("box_point: 'b'"), HasSubstr("`box_point` without `boxes: true`"));
  EXPECT_THAT(schema_fault("boxes: true box_point: 'b' skeleton { from: 0 to: 1 }"),
              HasSubstr("joins the points 0 and 1, and a box has 1"));
}

TEST_F(KeyPoints, SidesPairByTheirNames) {
  SampleSchema schema;
  for (const char* name : {"left_ear", "tail", "right_ear", "left_paw", "leftover"}) schema.add_point(name);
  EXPECT_THAT(MirroredPoints(schema.point()), ElementsAre(2, 1, 0, 3, 4));
}

}  // namespace
}  // namespace moka
