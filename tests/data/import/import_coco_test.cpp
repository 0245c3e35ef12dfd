// COCO's annotation files as SampleRecords.
#include "data/import/import.h"
#include "tests/data/sample_fixture.h"

namespace moka {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CocoImports : public SampleImports {
 protected:
  void SetUp() override {
    Write("p/a.png", EncodePng(Gradient(8, 6, 3)));
    Write("p/sub/b.png", EncodePng(Gradient(8, 6, 3)));
  }
  std::string Source() const { return StrCat("coco:", Text("coco.json"), ",", Text("p")); }
  // Images come after the annotations that refer to them.
  void WriteJson(const std::string& annotations,
                 const std::string& categories = R"({"id":18,"name":"dog"},{"id":7,"name":"cat"})",
                 const std::string& more_images = "") const {
    Write("coco.json", StrCat(R"({"info":{"year":2017},"annotations":[)", annotations, R"(],"categories":[)",
                              categories, R"(],"images":[{"id":31,"file_name":"sub/b.png","width":8,"height":6},)",
                              R"({"id":30,"file_name":"a.png","width":8,"height":6})", more_images, "]}"));
  }
  static std::string Annotation(int id, int image, int category, const std::string& box, const std::string& more = "") {
    return StrCat(R"({"id":)", id, R"(,"image_id":)", image, R"(,"category_id":)", category, R"(,"bbox":[)", box, "]",
                  more, "}");
  }
  std::string Fault() const {
    return ErrorOf([&] { Import(Source(), At("db"), {}); });
  }
};

TEST_F(CocoImports, BoxesAndClasses) {
  WriteJson(Annotation(1, 30, 18, "2,3,4,1.5") + "," + Annotation(2, 30, 7, "0,0,8.005,6", R"(,"iscrowd":1)") + "," +
            Annotation(3, 30, 7, "2,2,0,3") + "," + Annotation(4, 31, 7, "4,3,40,3"));
  const ImportReport report = Import(Source(), At("db"), {});
  EXPECT_EQ(report.records, 2);
  EXPECT_THAT(report.labels, ElementsAre("none", "cat", "dog"));
  const auto records = Records();
  EXPECT_THAT(Boxes(records[0]), ElementsAre("1 0.5 0.5 1 1"));
  EXPECT_THAT(Boxes(records[1]), ElementsAre("2 0.25 0.5 0.75 0.75", "1 0 0 1 1 crowd"));
  EXPECT_EQ(LmdbReader(At("db")).key(0), "00000000_sub/b.png");
  EXPECT_EQ(records[1].picture(), ReadFile(At("p/a.png")));
  EXPECT_EQ(records[1].box(0).run_size(), 0);
  EXPECT_EQ(Schema().ShortDebugString(),
            "version: 1 box_class: \"none\" box_class: \"cat\" box_class: \"dog\" boxes: true");
  const std::string json = Text("coco.json");
  EXPECT_THAT(report.warnings,
              ElementsAre(json + ": sub/b.png: annotation 4: the box 4 3 44 6 reaches outside the picture of 8 x 6",
                          json + ": a.png: annotation 3: the box 2 2 2 5 has no area in the picture: it is left out"));
}

TEST_F(CocoImports, PartsOfThePicturesSidesAreNoPixels) {
  WriteJson(Annotation(1, 30, 7, "0.1,0.1,0.2,0.2"));
  EXPECT_THAT(Fault(), HasSubstr("no box reaches beyond the first pixel"));
  WriteJson(Annotation(1, 30, 7, "0,0,1,1"));
  EXPECT_EQ(Import(Source(), At("db"), {}).records, 2);
  WriteJson(Annotation(1, 30, 7, "0,0,4,4"), R"({"id":7,"name":"a\nb"})");
  EXPECT_THAT(Fault(), HasSubstr("has a control character"));
}

TEST_F(CocoImports, CrowdsAreSaidByZeroOrOne) {
  std::string annotations;
  int id = 0;
  for (const char* flag : {"null", "false", "0", "true", "1"}) {
    ++id;
    annotations += StrCat(id > 1 ? "," : "", Annotation(id, 30, 7, "0,0,4,3", StrCat(R"(,"iscrowd":)", flag)));
  }
  WriteJson(annotations);
  Import(Source(), At("db"), {});
  EXPECT_THAT(Boxes(Records()[1]), ElementsAre("1 0 0 0.5 0.5", "1 0 0 0.5 0.5", "1 0 0 0.5 0.5", "1 0 0 0.5 0.5 crowd",
                                               "1 0 0 0.5 0.5 crowd"));
  for (const char* flag : {"2", "-1", "0.5", "\"1\"", "[]"}) {
    WriteJson(Annotation(5, 30, 7, "0,0,4,3", StrCat(R"(,"iscrowd":)", flag)));
    EXPECT_EQ(Fault(), StrCat(Text("coco.json"), ": annotation 5: its iscrowd is ", flag, ", expected 0 or 1"));
  }
}

TEST_F(CocoImports, ObjectsToBeIgnoredAreCrowds) {
  WriteJson(Annotation(1, 30, 7, "0,0,4,3", R"(,"iscrowd":0,"ignore":1)") + "," +
            Annotation(2, 30, 7, "0,0,4,3", R"(,"ignore":false)"));
  Import(Source(), At("db"), {});
  EXPECT_THAT(Boxes(Records()[1]), ElementsAre("1 0 0 0.5 0.5 crowd", "1 0 0 0.5 0.5"));
  WriteJson(Annotation(5, 30, 7, "0,0,4,3", R"(,"ignore":2)"));
  EXPECT_EQ(Fault(), Text("coco.json") + ": annotation 5: its ignore is 2, expected 0 or 1");
}

TEST_F(CocoImports, NothingIsThereTwice) {
  const std::string json = Text("coco.json") + ": ";
  const std::string one = Annotation(5, 30, 7, "1,1,2,2");
  WriteJson(one + "," + Annotation(5, 31, 7, "1,1,2,2"));
  EXPECT_EQ(Fault(), json + "annotation 5: is listed twice");
  const std::string same_names = R"({"id":7,"name":"cat"},{"id":9,"name":"cat"})";
  WriteJson(one + "," + Annotation(6, 30, 9, "1,1,2,2"), same_names);
  EXPECT_EQ(Fault(), json + "category 9: its name \"cat\" is that of category 7");
  WriteJson(one, R"({"id":7,"name":"cat"})", R"(,{"id":40,"file_name":"a.png"})");
  EXPECT_EQ(Fault(), json + "image 40: its file \"a.png\" is that of image 30");
  WriteJson(Annotation(5, 30, 7, "1,1,2,2", R"(,"bbox":[0,0,1,1])"));
  EXPECT_EQ(Fault(), json + "the first object has \"bbox\" twice");
  WriteJson(one + "," + Annotation(6, 30, 7, "1,1,2,2", R"(,"bbox":[0,0,1,1])"));
  EXPECT_EQ(Fault(), json + "the object behind annotation 5 has \"bbox\" twice");
  Write("coco.json", R"({"images":[],"annotations":[],"categories":[],"annotations":[]})");
  EXPECT_EQ(Fault(), json + "has \"annotations\" twice");
  WriteJson(one, same_names);  // exporters list a group of classes so
  EXPECT_EQ(Import(Source(), At("named"), {}).records, 2);
}

TEST_F(CocoImports, AFileWithoutAnnotationsIsTold) {
  WriteJson("");
  EXPECT_THAT(Import(Source(), At("db"), {}).warnings,
              ElementsAre(Text("coco.json") + ": no annotations: no picture has a box"));
}

TEST_F(CocoImports, Masks) {
  // A polygon, two, run lengths as text and as numbers: the golden's rectangle of columns 1..4 and rows 1..3.
  WriteJson(Annotation(1, 30, 7, "1,1,4,3", R"(,"segmentation":[[1,1,5,1,5,4,1,4]])") + "," +
            Annotation(2, 30, 7, "0,0,7,6", R"(,"segmentation":[[0,0,3,0,3,6,0,6],[2,3,7,3,7,6,2,6]])") + "," +
            Annotation(3, 31, 7, "1,1,4,3", R"(,"iscrowd":1,"segmentation":{"size":[6,8],"counts":"73300000a0"})") +
            "," + Annotation(4, 31, 7, "1,1,4,3", R"(,"segmentation":{"size":[6,8],"counts":[7,3,3,3,3,3,3,3,20]})"));
  Import(Source(), At("db"), {});
  const auto records = Records();
  const std::vector<uint32_t> rectangle = {7, 3, 3, 3, 3, 3, 3, 3, 20};
  EXPECT_EQ(Runs(records[0].box(0)), rectangle);
  EXPECT_TRUE(records[0].box(0).crowd());
  EXPECT_EQ(Runs(records[0].box(1)), rectangle);
  EXPECT_EQ(Runs(records[1].box(0)), rectangle);
  EXPECT_THAT(Runs(records[1].box(1)), ElementsAre(0, 18, 3, 3, 3, 3, 3, 3, 3, 3, 6));
  EXPECT_TRUE(Schema().box_masks());
  // The picture's size goes for the masks, too.
  Import(Source(), At("small"), {.height = 3, .width = 4});
  EXPECT_THAT(Runs(Records("small")[0].box(0)), ElementsAre(4, 1, 2, 1, 4));
}

TEST_F(CocoImports, ABoxWithoutAnOutlineAmongOthersIsItsMask) {
  WriteJson(Annotation(1, 31, 7, "1,1,4,3", R"(,"segmentation":[[1,1,5,1,5,4,1,4]])") + "," +
            Annotation(2, 30, 7, "1,1,4,3", R"(,"segmentation":[])"));
  const ImportReport report = Import(Source(), At("db"), {});
  EXPECT_THAT(report.warnings, Contains(HasSubstr("1 box has no outline")));
  const auto records = Records();
  EXPECT_THAT(Runs(records[0].box(0)), ElementsAre(7, 3, 3, 3, 3, 3, 3, 3, 20));
  EXPECT_EQ(Runs(records[0].box(0)), Runs(records[1].box(0)));
}

TEST_F(CocoImports, BadObjectsMakeTheirPictureABadOne) {
  const std::string good = Annotation(1, 31, 7, "1,1,4,3", R"(,"segmentation":[[1,1,5,1,5,4,1,4]])");
  const std::string json = Text("coco.json");
  const auto fault = [&](const std::string& segmentation) {
    WriteJson(good + "," + Annotation(2, 30, 7, "1,1,4,3", segmentation));
    return Fault();
  };
  EXPECT_EQ(fault(R"(,"segmentation":[[1,2,3,4]])"),
            json + ": a.png: annotation 2: a polygon of 4 numbers, expected x and y of at least three corners");
  EXPECT_EQ(fault(R"(,"segmentation":{"size":[6,9],"counts":[54]})"),
            json + ": a.png: annotation 2: has run lengths of a picture of 9 x 6");
  EXPECT_EQ(fault(R"(,"segmentation":{"size":[6,8],"counts":[7,3]})"),
            json + ": a.png: annotation 2: the run lengths of a mask sum to 10, expected 6 x 8 = 48");
  const ImportReport report = Import(Source(), At("db"), {.on_bad_record = ImportOptions::OnBadRecord::kSkip});
  EXPECT_EQ(report.records, 1);
  EXPECT_EQ(report.skipped.size(), 1U);
}

TEST_F(CocoImports, FaultsOfTheFileAreNamed) {
  const std::string json = Text("coco.json") + ": ";
  Write("coco.json", "{\"images\": [");
  EXPECT_THAT(Fault(), testing::StartsWith(json + "this is no JSON at line 1, column 13: "));
  Write("coco.json", "{\"images\": [],\n \"categories\": []} }");
  EXPECT_THAT(Fault(), testing::StartsWith(json + "this is no JSON at line 2, column 20: "));
  Write("coco.json", "{\"images\": [],\n \"na\xefme\": 1}");
  EXPECT_THAT(Fault(), testing::AllOf(testing::StartsWith(json + "this is no JSON at line 2, column 6: "),
                                      testing::HasSubstr("UTF-8")));
  Write("coco.json", "[]");
  EXPECT_EQ(Fault(), json + "this is no JSON object");
  Write("coco.json", R"({"images":[],"annotations":[]})");
  EXPECT_EQ(Fault(), json + "has no list \"categories\"");
  Write("coco.json", R"({"images":[],"annotations":[],"categories":[]})");
  EXPECT_EQ(Fault(), json + "no images");
  WriteJson(Annotation(5, 30, 9, "1,1,2,2"));
  EXPECT_EQ(Fault(), json + "annotation 5 is of category 9, which is not listed");
  WriteJson(Annotation(5, 33, 7, "1,1,2,2"));
  EXPECT_EQ(Fault(), json + "annotation 5 is of image 33, which is not listed");
  WriteJson(Annotation(5, 30, 7, "1,1,2"));
  EXPECT_EQ(Fault(), json + "annotation 5: has no \"bbox\" of four numbers");
  WriteJson(Annotation(5, 30, 7, "1,1,2,\"x\""));
  EXPECT_EQ(Fault(), json + "annotation 5: its bbox has \"x\", expected numbers");
  WriteJson("", R"({"id":7,"name":"cat"},{"id":7,"name":"dog"})");
  EXPECT_EQ(Fault(), json + "category 7: is listed twice");
  WriteJson("", R"({"id":7})");
  EXPECT_EQ(Fault(), json + "category 7: has no text \"name\": {\"id\":7}");
  WriteJson("", "{}");
  EXPECT_THAT(Fault(), HasSubstr("has no whole number \"id\": {}"));
  WriteJson("", R"({"id":7,"name":"cat"})", R"(,{"id":1,"file_name":"c.png","width":5,"height":6})");
  Write("p/c.png", EncodePng(Gradient(8, 6, 3)));
  EXPECT_EQ(Fault(), json + "c.png: the size stated is 5 x 6 and the picture's 8 x 6");
  std::filesystem::remove(At("p/c.png"));
  EXPECT_THAT(Fault(), HasSubstr(json + "image 1: cannot open " + Text("p/c.png")));
}

}  // namespace
}  // namespace moka
