// Annotation files, label maps, and the import of pictures with boxes as SSD's convert_annoset makes it.
#include "data/labels/annotation_file.h"

#include "core/text.h"
#include "data/import/import.h"
#include "data/labels/label_map.h"
#include "data/records/annotated_record.h"
#include "data/records/datum_view.h"
#include "proto/moka.pb.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::map<std::string, int32_t> kLabels = {{"background", 0}, {"cat", 1}, {"dog", 2}, {"18", 7}};

struct Result {
  AnnotatedDatum record;
  std::vector<std::string> warnings;
  int64_t of_boxes = 0;  // of the warnings
};

Result Read(const std::string& text, AnnotationFormat format, PictureSize picture = {40, 20}) {
  Result result;
  RecordWarnings warnings;
  ReadAnnotations(text, format, kLabels, picture, result.record, warnings);
  for (const RecordWarning& warning : warnings) {
    result.warnings.push_back(warning.text);
    if (warning.kind == RecordWarning::Kind::kBox) ++result.of_boxes;
  }
  return result;
}

// Everything of a record in one line a box: label instance xmin ymin xmax ymax difficult.
std::vector<std::string> Boxes(const AnnotatedDatum& record) {
  std::vector<std::string> lines;
  for (const AnnotationGroup& group : record.annotation_group()) {
    for (const Annotation& a : group.annotation()) {
      const NormalizedBBox& b = a.bbox();
      lines.push_back(StrCat(group.group_label(), " ", a.instance_id(), " ", b.xmin(), " ", b.ymin(), " ", b.xmax(),
                             " ", b.ymax(), b.difficult() ? " difficult" : ""));
    }
  }
  return lines;
}

std::string Voc(const std::string& objects, const std::string& size = "<width>40</width><height>20</height>") {
  return StrCat("<annotation>\n<folder>VOC</folder><size>", size, "<depth>3</depth></size>\n", objects,
                "</annotation>\n");
}

std::string Object(const std::string& name, const std::string& box, const std::string& more = "") {
  const std::vector<std::string> c = Split(box, ' ');
  return StrCat("<object><name>", name, "</name>", more, "<bndbox><xmin>", c[0], "</xmin><ymin>", c[1], "</ymin><xmax>",
                c[2], "</xmax><ymax>", c[3], "</ymax></bndbox></object>\n");
}

// Files ---------------------------------------------------------------------------------------------------------------

TEST(AnnotationFileTest, VocBoxesBecomeFractionsGroupedByLabel) {
  const std::string part = "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>";
  const Result r = Read(Voc(Object("dog", "10 5 20 15", "<difficult>1</difficult>") + Object("cat", "0 0 40 20", part) +
                            Object("dog", "4 2 8 10", "<difficult>0</difficult>")),
                        AnnotationFormat::kXml);
  EXPECT_THAT(Boxes(r.record), ElementsAre("2 0 0.25 0.25 0.5 0.75 difficult", "2 1 0.1 0.1 0.2 0.5", "1 0 0 0 1 1"));
  EXPECT_THAT(r.warnings, IsEmpty());
}

TEST(AnnotationFileTest, TheStatedSizeCountsAndOddBoxesAreTold) {
  const Result r =
      Read(Voc(Object("cat", "10.5 5 90 10"), "<width>80</width><height>40</height>"), AnnotationFormat::kXml);
  EXPECT_THAT(Boxes(r.record), ElementsAre("1 0 0.13125 0.125 1.125 0.25"));
  EXPECT_THAT(r.warnings, ElementsAre(HasSubstr("the size stated is 80 x 40 and the picture's 40 x 20"),
                                      HasSubstr("10.5 5 90 10 reaches outside the picture of 80 x 40")));
  EXPECT_EQ(r.of_boxes, 1);
  const Result without = Read("<annotation>" + Object("cat", "20 5 10 10") + "</annotation>", AnnotationFormat::kXml);
  EXPECT_THAT(Boxes(without.record), ElementsAre("1 0 0.5 0.25 0.25 0.5"));
  EXPECT_THAT(without.warnings, ElementsAre(HasSubstr("no size is stated"), HasSubstr("has its corners swapped")));
}

TEST(AnnotationFileTest, CocosBoxesHaveSidesAndCrowdsAreDifficult) {
  const Result r = Read(R"({"image": {"width": 40, "height": 20, "file_name": "a.jpg"}, "annotation": [
    {"category_id": 18, "bbox": [10, 5, 10, 10], "iscrowd": 1}, {"category_id": "cat", "bbox": [0, 0, 40, 20]}]})",
                        AnnotationFormat::kJson);
  EXPECT_THAT(Boxes(r.record), ElementsAre("7 0 0.25 0.25 0.5 0.75 difficult", "1 0 0 0 1 1"));
}

TEST(AnnotationFileTest, CrowdsAreSaidByZeroOrOne) {
  const auto read = [](const std::string& flag) {
    return Read(R"({"annotation": [{"category_id": 18, "bbox": [10, 5, 10, 10], "iscrowd": )" + flag + "}]}",
                AnnotationFormat::kJson);
  };
  for (const char* flag : {"null", "false", "0"}) {
    EXPECT_THAT(Boxes(read(flag).record), ElementsAre("7 0 0.25 0.25 0.5 0.75")) << flag;
  }
  for (const char* flag : {"true", "1"}) {
    EXPECT_THAT(Boxes(read(flag).record), ElementsAre("7 0 0.25 0.25 0.5 0.75 difficult")) << flag;
  }
  for (const char* flag : {"2", "0.5", "\"1\"", "[]"}) {
    EXPECT_EQ(ErrorOf([&] { read(flag); }), StrCat("its iscrowd is ", flag, ", expected 0 or 1"));
  }
}

// No number that a file may hold is cast to a size that it is not.
TEST(AnnotationFileTest, StatedSizesAreWholeAndOfPictures) {
  const auto xml = [](const std::string& width, const std::string& height) {
    return Read(Voc(Object("cat", "0 0 10 5"), StrCat("<width>", width, "</width><height>", height, "</height>")),
                AnnotationFormat::kXml);
  };
  const auto json = [](const std::string& width, const std::string& height) {
    return Read(StrCat(R"({"image": {"width": )", width, R"(, "height": )", height,
                       R"(}, "annotation": [{"category_id": "cat", "bbox": [0, 0, 10, 5]}]})"),
                AnnotationFormat::kJson);
  };
  for (const char* side : {"0", "-3", "40.5", "16777217", "1e300", "-1e300"}) {
    const std::string expected = "expected whole numbers of pixels, 1..16777216";
    EXPECT_THAT(ErrorOf([&] { xml(side, "20"); }), testing::EndsWith(" x 20, " + expected)) << side;
    EXPECT_THAT(ErrorOf([&] { xml("40", side); }), testing::StartsWith("the picture's size is 40 x ")) << side;
    EXPECT_THAT(ErrorOf([&] { json(side, "20"); }), testing::EndsWith(" x 20, " + expected)) << side;
    EXPECT_THAT(ErrorOf([&] { json("40", side); }), testing::StartsWith("the picture's size is 40 x ")) << side;
  }
  EXPECT_EQ(xml("16777216", "20").record.annotation_group(0).annotation(0).bbox().xmax(), 10.0F / (1 << 24));
  EXPECT_THAT(Boxes(json("40.0", "1").record), ElementsAre("1 0 0 0 0.25 5"));
}

TEST(AnnotationFileTest, TextHasLabelsAsNumbers) {
  const std::string text = "2 10 5 20 15\n\n 7\t0 0 40 20 \n2 0 0 4 2\n";
  const Result r = Read(text, AnnotationFormat::kText);
  EXPECT_THAT(Boxes(r.record), ElementsAre("2 0 0.25 0.25 0.5 0.75", "2 1 0 0 0.1 0.1", "7 0 0 0 1 1"));
  EXPECT_THAT(Boxes(Read("", AnnotationFormat::kText).record), IsEmpty());
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_THAT(Boxes(Read(mark + "2 10 5 20 15\r7 0 0 40 20", AnnotationFormat::kText).record),
              ElementsAre("2 0 0.25 0.25 0.5 0.75", "7 0 0 0 1 1"));
  EXPECT_EQ(ErrorOf([&] { Read("\xFF\xFE\x32", AnnotationFormat::kText); }),
            "line 1: the text is UTF-16, expected UTF-8; `iconv -f UTF-16 -t UTF-8 FILE` makes it so");
}

TEST(AnnotationFileTest, TextHasTheLabelMapsLabelsAndPixels) {
  const auto fault = [](const std::string& text) { return ErrorOf([&] { Read(text, AnnotationFormat::kText); }); };
  EXPECT_EQ(fault("1 0 0 4 2\n3 0 0 4 2\n"), "line 2: the label map has no label 3, its labels are in 0..7");
  EXPECT_EQ(fault("-1 0 0 4 2\n"), "line 1: the label map has no label -1, its labels are in 0..7");
  EXPECT_EQ(fault("0 0 0 4 2\n"), "line 1: label 0 is \"background\" in the label map, which stands for no object");
  EXPECT_THAT(fault("1 0.5 0.5 0.25 1\n2 0 0.1 1 1\n"), HasSubstr("normalised as YOLO writes them; expected corners"));
  EXPECT_THAT(Boxes(Read("1 0 0 1 1\n", AnnotationFormat::kText).record), ElementsAre("1 0 0 0 0.025 0.05"));
  EXPECT_THAT(Boxes(Read("1 0 0 1 1\n1 0.5 0 2 1\n", AnnotationFormat::kText).record), SizeIs(2));
  AnnotatedDatum record;
  RecordWarnings warnings;
  ReadAnnotations("9 0 0 4 2", AnnotationFormat::kText, {}, {40, 20}, record, warnings);  // no map: any number
  EXPECT_THAT(Boxes(record), ElementsAre("9 0 0 0 0.1 0.1"));
  EXPECT_THAT(ErrorOf([&] { Read(Voc(Object("background", "0 0 4 2")), AnnotationFormat::kXml); }),
              HasSubstr("an object is called \"background\""));
}

TEST(AnnotationFileTest, MistakesAreNamed) {
  const auto error = [](const std::string& text, AnnotationFormat format) {
    return ErrorOf([&] { Read(text, format); });
  };
  constexpr auto kXml = AnnotationFormat::kXml;
  EXPECT_THAT(error("<annotation><size>", kXml), HasSubstr("this is no XML: line 1"));
  EXPECT_THAT(error("", kXml), HasSubstr("this is no XML"));
  EXPECT_THAT(error("<picture/>", kXml), HasSubstr("the XML is no <annotation>"));
  EXPECT_THAT(error(Voc(Object("caat", "0 0 1 1")), kXml), HasSubstr("no name \"caat\"; did you mean \"cat\"?"));
  EXPECT_THAT(error(Voc(Object("cat", "0 x 1 1")), kXml), HasSubstr("<ymin> is no number: \"x\""));
  EXPECT_THAT(error(Voc("<object><name>cat</name></object>"), kXml), HasSubstr("line 3: <object> has no <bndbox>"));
  EXPECT_THAT(error(Voc("<object><bndbox><xmin>1</xmin></bndbox></object>"), kXml),
              HasSubstr("<bndbox> has no <ymin>"));
  EXPECT_THAT(error(Voc("", "<width>0</width><height>20</height>"), kXml), HasSubstr("the picture's size is 0 x 20"));
  constexpr auto kJson = AnnotationFormat::kJson;
  EXPECT_THAT(error("{", kJson), HasSubstr("this is no JSON"));
  EXPECT_THAT(error("{}", kJson), HasSubstr("no list \"annotation\""));
  EXPECT_THAT(error(R"({"annotation": [{"bbox": [0, 0, 1, 1]}]})", kJson), HasSubstr("no \"category_id\""));
  EXPECT_THAT(error(R"({"annotation": [{"category_id": 18, "bbox": [0, 0, 1]}]})", kJson),
              HasSubstr("of four numbers"));
  EXPECT_THAT(error(R"({"annotation": [{"category_id": 18, "bbox": [0, 0, "w", 1]}]})", kJson),
              HasSubstr("bbox[2] is no number: \"w\""));
  constexpr auto kText = AnnotationFormat::kText;
  EXPECT_THAT(error("1 0 0 1 1\n1 2 3", kText), HasSubstr("line 2: expected \"label xmin ymin xmax ymax\""));
  EXPECT_THAT(error("cat 0 0 1 1", kText), HasSubstr("line 1: a value is no number: \"cat\""));
  EXPECT_THAT(ErrorOf([] { AnnotationFormatNamed("yaml"); }), HasSubstr("xml, json or txt, found \"yaml\""));
}

// An entity that names a file is not followed, and one that grows without end is refused.
TEST(AnnotationFileTest, EntitiesOpenNothing) {
  const std::string outside =
      "<!DOCTYPE a [<!ENTITY f SYSTEM \"file:///etc/passwd\">]>" + Voc(Object("&f;", "0 0 1 1"));
  EXPECT_THAT(ErrorOf([&] { Read(outside, AnnotationFormat::kXml); }),
              HasSubstr("<name> has the entity &f;, which is not read"));
  std::string laughs = "<!DOCTYPE a [<!ENTITY e0 \"ha\">";
  for (int i = 1; i < 30; ++i) {
    laughs += StrCat("<!ENTITY e", i, " \"");
    for (int k = 0; k < 10; ++k) laughs += StrCat("&e", i - 1, ";");
    laughs += "\">";
  }
  laughs += "]>" + Voc(Object("&e29;", "0 0 1 1"));
  EXPECT_THAT(ErrorOf([&] { Read(laughs, AnnotationFormat::kXml); }), testing::Not(IsEmpty()));
}

// Import --------------------------------------------------------------------------------------------------------------

class AnnotatedImports : public DataTest {
 protected:
  void SetUp() override {
    Write("map.prototxt",
          "item { name: \"none\" label: 0 display_name: \"background\" }\nitem { name: \"cat\" label: 1 }\n"
          "item { name: \"dog\" label: 2 }\n");
    Write("pictures/a.png", EncodePng(Gradient(40, 20, 3)));
    Write("pictures/b.jpg", EncodeJpeg(Gradient(20, 40, 3)));
    Write("boxes/a.xml", Voc(Object("dog", "10 5 20 15")));
    Write("boxes/b.xml", Voc(Object("cat", "0 0 20 40"), "<width>20</width><height>40</height>"));
    Write("list.txt", "pictures/a.png boxes/a.xml\npictures/b.jpg\tboxes/b.xml\n");
  }
  ImportReport Make(const ImportOptions& options = {}, const std::string& format = {}) const {
    AnnotationOptions annotations;
    annotations.format = format;
    annotations.label_map = At("map.prototxt");
    std::filesystem::remove_all(At("db"));
    return ImportAnnotated(At("list.txt"), At("").string(), annotations, At("db"), options);
  }
  AnnotatedDatum RecordAt(int64_t i) const {
    const LmdbReader reader(At("db"));
    AnnotatedDatum record;
    EXPECT_TRUE(record.ParseFromString(std::string(reader.value(i))));
    return record;
  }
};

TEST_F(AnnotatedImports, PicturesAndBoxesBecomeRecords) {
  const ImportReport report = Make();
  EXPECT_EQ(report.records, 2);
  EXPECT_THAT(report.labels, ElementsAre("none", "cat", "dog"));
  EXPECT_THAT(report.shapes, ElementsAre("3x20x40", "3x40x20"));
  EXPECT_THAT(report.warnings, IsEmpty());
  const AnnotatedDatum a = RecordAt(0);
  EXPECT_EQ(a.type(), AnnotatedDatum::BBOX);
  EXPECT_EQ(a.datum().label(), -1);
  EXPECT_EQ(a.datum().data(), ReadFile(At("pictures/a.png")));
  EXPECT_THAT(Boxes(a), ElementsAre("2 0 0.25 0.25 0.5 0.75"));
  EXPECT_THAT(Boxes(RecordAt(1)), ElementsAre("1 0 0 0 1 1"));
  EXPECT_EQ(LmdbReader(At("db")).key(1), "00000001_pictures/b.jpg");
  AnnotatedRecord record;
  const LmdbReader reader(At("db"));
  ParseAnnotated(reader.value(0), record);
  EXPECT_THAT(record.annotations, SizeIs(1));
}

TEST_F(AnnotatedImports, AreStoredAsCaffesProgramStoresThem) {
  ImportOptions options;
  options.stores_like_caffe = true;
  options.channels = ImageChannels::kColor;
  options.storage = ImportOptions::Storage::kJpeg;
  Make(options);
  EXPECT_EQ(RecordAt(1).datum().data(), ReadFile(At("pictures/b.jpg")));  // already a JPEG
  EXPECT_EQ(ReadImageHeader(RecordAt(0).datum().data()).format, ImageHeader::Format::kJpeg);
  options.storage = ImportOptions::Storage::kSource;
  options.height = options.width = 16;
  EXPECT_THAT(Make(options).shapes, ElementsAre("3x16x16"));
  EXPECT_EQ(ReadImageHeader(RecordAt(0).datum().data()).format, ImageHeader::Format::kPng);
  EXPECT_EQ(ReadImageHeader(RecordAt(1).datum().data()).format, ImageHeader::Format::kJpeg);
  EXPECT_THAT(Boxes(RecordAt(0)), ElementsAre("2 0 0.25 0.25 0.5 0.75"));  // fractions stay
  options.storage = ImportOptions::Storage::kRaw;
  Make(options);
  EXPECT_FALSE(RecordAt(0).datum().encoded());
  EXPECT_THAT(RecordAt(0).datum().data(), SizeIs(3 * 16 * 16));
}

TEST_F(AnnotatedImports, SidesAreBroughtBetweenBounds) {
  ImportOptions options;
  options.min_dim = 30;
  EXPECT_THAT(Make(options).shapes, ElementsAre("3x30x60", "3x60x30"));
  options.max_dim = 50;  // the longer side's bound counts more
  EXPECT_THAT(Make(options).shapes, ElementsAre("3x25x50", "3x50x25"));
  options.min_dim = 0;
  EXPECT_THAT(Make(options).shapes, ElementsAre("3x20x40", "3x40x20"));
  options.max_dim = -1;
  EXPECT_THAT(ErrorOf([&] { Make(options); }), HasSubstr("cannot bring sides between 0 and -1"));
}

TEST_F(AnnotatedImports, PicturesWithoutAFileHaveNoObjects) {
  std::filesystem::remove(At("boxes/a.xml"));
  const ImportReport report = Make();
  EXPECT_THAT(report.warnings, ElementsAre("boxes/a.xml does not exist: pictures/a.png has no objects"));
  EXPECT_THAT(Boxes(RecordAt(0)), IsEmpty());
  EXPECT_EQ(RecordAt(0).type(), AnnotatedDatum::BBOX);
}

TEST_F(AnnotatedImports, BadPicturesAreSkippedAndBadAnnotationsStop) {
  Write("pictures/a.png", "no picture");
  ImportOptions options;
  options.on_bad_record = ImportOptions::OnBadRecord::kSkip;
  EXPECT_THAT(Make(options).skipped, ElementsAre(HasSubstr("pictures/a.png: ")));
  Write("pictures/b.jpg", EncodeJpeg(Gradient(40, 20, 3)));
  Write("boxes/b.xml", Voc(Object("cow", "0 0 1 1")));
  EXPECT_THAT(ErrorOf([&] { Make(options); }), HasSubstr("boxes/b.xml: the label map has no name \"cow\""));
  EXPECT_FALSE(std::filesystem::exists(At("db")));
}

TEST_F(AnnotatedImports, Mistakes) {
  EXPECT_THAT(ErrorOf([&] { Make({}, "yaml"); }), HasSubstr("xml, json or txt"));
  Write("list.txt", "pictures/a.png boxes/a.csv\n");
  EXPECT_THAT(ErrorOf([&] { Make(); }), HasSubstr("list.txt:1: annotation files are .xml, .json or .txt, found"));
  Write("list.txt", "pictures/a.png\n");
  EXPECT_THAT(ErrorOf([&] { Make(); }), HasSubstr("list.txt:1: expected \"picture annotation\""));
  Write("list.txt", "pictures/my cat.png boxes/a.xml\n");
  EXPECT_THAT(ErrorOf([&] { Make(); }), HasSubstr("expected \"picture annotation\""));
  Write("list.txt", "\n");
  EXPECT_THAT(ErrorOf([&] { Make(); }), HasSubstr("the list is empty"));
  Write("list.txt", "pictures/a.png boxes/a.xml\n");
  Write("map.prototxt", "# nothing\n");
  EXPECT_THAT(ErrorOf([&] { Make(); }), HasSubstr("the label map has no items"));
  const std::string map = "item { name: \"dog\" label: 1 }\nitem { name: \"dog\" label: 2 }\n";
  Write("map.prototxt", map);
  EXPECT_EQ(ReadLabelMap(At("map.prototxt"), LabelMapCheck::kNone).at("dog"), 2);
  EXPECT_THAT(ErrorOf([&] { ReadLabelMap(At("map.prototxt"), LabelMapCheck::kUnique); }),
              HasSubstr("the name \"dog\" is given twice"));
  Write("map.prototxt", "item { name: \"dog\" label: 1 }\nitem { name: \"cat\" label: 1 }\n");
  EXPECT_THAT(ErrorOf([&] { ReadLabelMap(At("map.prototxt"), LabelMapCheck::kUnique); }),
              HasSubstr("the label 1 is that of \"dog\" and of \"cat\""));
  EXPECT_EQ(ReadLabelMap(At("map.prototxt"), LabelMapCheck::kNames).size(), 2U);
}

TEST_F(AnnotatedImports, TheImportVerbsSourceChoosesByExtension) {
  const std::string source =
      StrCat("boxes:", At("list.txt").string(), ",", At("map.prototxt").string(), ",", folder_.string());
  EXPECT_EQ(Import(source, At("db"), {}).records, 2);
  EXPECT_THAT(Boxes(RecordAt(1)), ElementsAre("1 0 0 0 1 1"));
}

TEST_F(AnnotatedImports, ClassesWithoutBoxes) {
  Write("classes.txt", "pictures/a.png 4\npictures/b.jpg 5\n");
  ImportAnnotatedClasses(At("classes.txt"), At("").string(), At("db"), {});
  EXPECT_FALSE(RecordAt(0).has_type());
  EXPECT_EQ(RecordAt(1).datum().label(), 5);
  EXPECT_THAT(Boxes(RecordAt(1)), IsEmpty());
}

}  // namespace
}  // namespace moka
