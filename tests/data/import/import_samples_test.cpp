// Importers that make SampleRecords: VOC's and COCO's layouts, masks, numbered objects.
#include <map>

#include "core/text.h"
#include "data/import/copy_records.h"
#include "data/import/import.h"
#include "data/inspect/inspect.h"
#include "data/records/sample_record.h"
#include "tests/data/import/tar_fixture.h"
#include "tests/data/sample_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// VOC -----------------------------------------------------------------------------------------------------------------

std::string Object(const std::string& name, const std::string& corners, const std::string& more = "") {
  const std::vector<std::string> c = Split(corners, ' ');
  return StrCat("<object><name>", name, "</name>", more, "<bndbox><xmin>", c[0], "</xmin><ymin>", c[1], "</ymin><xmax>",
                c[2], "</xmax><ymax>", c[3], "</ymax></bndbox></object>\n");
}
std::string Voc(const std::string& objects) {
  return StrCat("<annotation><size><width>40</width><height>20</height><depth>3</depth></size>\n", objects,
                "</annotation>\n");
}

class VocImports : public SampleImports {
 protected:
  std::map<std::string, std::string> Files() const {
    const std::string jpeg = EncodeJpeg(Gradient(40, 20, 3));
    return {{"JPEGImages/a.jpg", jpeg},
            {"JPEGImages/b.jpg", jpeg},
            {"JPEGImages/c.jpg", jpeg},
            {"Annotations/a.xml", Voc(Object("dog", "10 5 20 15", "<difficult>1</difficult>") +
                                      Object("cat", "0 0 40 20") + Object("dog", "3 4 3 9"))},
            {"Annotations/b.xml", Voc("")},
            {"Annotations/c.xml", Voc(Object("ant", "30 10 44 25"))},
            {"ImageSets/Main/train.txt", "b\na\nc\n"},
            {"ImageSets/Main/val.txt", "c"},
            {"ImageSets/Main/dog_train.txt", "a  1\nb -1\n"},
            {"ImageSets/Segmentation/train.txt", "a\nb\n"},
            {"SegmentationClass/a.png", ReadFile(MOKA_SOURCE_DIR "/tests/data/images/palette_4x2.png")}};
  }
  void WriteFolder() const {
    for (const auto& [name, bytes] : Files()) Write("voc/" + name, bytes);
  }
};

TEST_F(VocImports, BoxesOfASplit) {
  WriteFolder();
  const ImportReport report = Import(StrCat("voc:", Text("voc"), ",train"), At("db"), {});
  EXPECT_EQ(report.records, 3);
  EXPECT_THAT(report.labels, ElementsAre("none", "ant", "cat", "dog"));
  const auto records = Records();
  EXPECT_THAT(Boxes(records[0]), IsEmpty());
  EXPECT_THAT(Boxes(records[1]), ElementsAre("3 0.25 0.25 0.5 0.75 difficult", "2 0 0 1 1"));
  EXPECT_THAT(Boxes(records[2]), ElementsAre("1 0.75 0.5 1 1"));
  EXPECT_EQ(records[1].picture(), Files().at("JPEGImages/a.jpg"));
  EXPECT_FALSE(records[1].has_height());
  EXPECT_EQ(LmdbReader(At("db")).key(1), "00000001_a");
  const SampleSchema schema = Schema();
  EXPECT_THAT(schema.box_class(), ElementsAre("none", "ant", "cat", "dog"));
  EXPECT_TRUE(schema.boxes());
  EXPECT_FALSE(schema.mask());
  EXPECT_FALSE(std::filesystem::exists(At("db/labels.txt")));
  EXPECT_THAT(
      report.warnings,
      ElementsAre(Text("voc/Annotations/a.xml") + ": the box 3 4 3 9 has no area in the picture: it is left out",
                  Text("voc/Annotations/c.xml") + ": the box 30 10 44 25 reaches outside the picture of 40 x 20"));
}

TEST_F(VocImports, ClassesMayBeGiven) {
  WriteFolder();
  Write("names.txt", "dog\ncat\nant\n");
  Import(StrCat("voc:", Text("voc"), ",train,", Text("names.txt")), At("db"), {});
  EXPECT_THAT(Schema().box_class(), ElementsAre("none", "dog", "cat", "ant"));
  EXPECT_THAT(Boxes(Records()[2]), ElementsAre("3 0.75 0.5 1 1"));
  Write("map.prototxt", "item { name: 'background' label: 0 } item { name: 'ant' label: 2 }");
  Import(StrCat("voc:", Text("voc"), ",val,", Text("map.prototxt")), At("val"), {});
  EXPECT_THAT(Schema("val").box_class(), ElementsAre("background", "1", "ant"));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("voc:", Text("voc"), ",train,", Text("map.prototxt")), At("none"), {}); }),
              testing::EndsWith("Annotations/a.xml: the label map has no name \"dog\""));
}

TEST_F(VocImports, ABackgroundAmongTheObjectsIsTold) {
  WriteFolder();
  Write("voc/Annotations/c.xml", Voc(Object("background", "30 10 40 20")));
  const ImportReport report = Import(StrCat("voc:", Text("voc"), ",val"), At("db"), {});
  EXPECT_THAT(report.labels, ElementsAre("none", "background"));
  EXPECT_THAT(report.warnings,
              ElementsAre("objects are called \"background\" and become a class like others, 1; a file of the classes' "
                          "names that begins with it makes it 0"));
}

TEST_F(VocImports, ListsOfAClassNameThePicturesThatShowIt) {
  WriteFolder();
  const ImportReport report = Import(StrCat("voc:", Text("voc"), ",dog_train"), At("db"), {});
  EXPECT_EQ(report.records, 1);
  EXPECT_THAT(report.warnings,
              testing::Contains("left out, pictures that the list says show none of its class (-1): 1 (b)"));
  EXPECT_EQ(LmdbReader(At("db")).key(0), "00000000_a");
}

TEST_F(VocImports, SwappedSidesAreRefused) {
  WriteFolder();
  const auto import = [&](const char* width, const char* height) {
    Write("voc/Annotations/b.xml",
          StrCat("<annotation><size><width>", width, "</width><height>", height, "</height></size></annotation>"));
    std::filesystem::remove_all(At("db"));
    return Import(StrCat("voc:", Text("voc"), ",train"), At("db"), {});
  };
  EXPECT_THAT(ErrorOf([&] { import("20", "40"); }),
              HasSubstr("the size stated is 20 x 40 and the picture's 40 x 20: width and height are swapped"));
  EXPECT_THAT(Join(import("80", "40").warnings, "\n"),
              HasSubstr("80 x 40 and the picture's 40 x 20: the boxes are taken as parts of the size stated"));
}

TEST_F(VocImports, NamesOfOneLine) {
  WriteFolder();
  Write("voc/Annotations/b.xml", Voc(Object("a\nb", "1 1 9 9")));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("voc:", Text("voc"), ",train"), At("db"), {}); }),
              HasSubstr("has a control character"));
}

TEST_F(VocImports, AnArchiveGivesTheSameRecords) {
  WriteFolder();
  Import(StrCat("voc:", Text("voc"), ",train"), At("db"), {});
  std::string tar;
  for (const auto& [name, bytes] : Files()) tar += TarMember("./kit/VOC/" + name, bytes);
  tar += std::string(1024, '\0');
  Write("voc.tar", tar);
  Write("voc.tar.gz", Gzipped(tar, At("scratch.gz")));
  Import(StrCat("voc:", Text("voc.tar"), ",train"), At("plain"), {});
  Import(StrCat("voc:", Text("voc.tar.gz"), ",train"), At("packed"), {.workers = 3});
  Import(StrCat("voc:", Text("voc.tar/kit/VOC"), ",train"), At("inside"), {});
  for (const char* name : {"plain/", "packed/", "inside/"}) {
    EXPECT_EQ(ReadFile(At(name + std::string("data.mdb"))), ReadFile(At("db/data.mdb"))) << name;
  }
}

TEST_F(VocImports, PicturesAreOfAnyFormatAndMayLieDeeper) {
  const std::map<std::string, std::string> files = {
      {"JPEGImages/a.PNG", EncodePng(Gradient(40, 20, 3))},
      {"JPEGImages/sub/b.bmp", ReadFile(MOKA_SOURCE_DIR "/tests/data/images/palette_4x2.png")},
      {"Annotations/a.xml", Voc("")},
      {"Annotations/sub/b.xml", Voc("")},
      {"ImageSets/Main/val.txt", "a\nsub/b\n"}};
  std::string tar;
  for (const auto& [name, bytes] : files) {
    Write("voc/" + name, bytes);
    tar += TarMember("kit/" + name, bytes);
  }
  Write("voc.tar", tar + std::string(1024, '\0'));
  EXPECT_EQ(Import(StrCat("voc:", Text("voc"), ",val"), At("db"), {}).records, 2);
  EXPECT_EQ(Import(StrCat("voc:", Text("voc.tar"), ",val"), At("packed"), {}).records, 2);
  EXPECT_EQ(ReadFile(At("packed/data.mdb")), ReadFile(At("db/data.mdb")));
}

TEST_F(VocImports, MasksOfASegmentationSplitKeepTheirIndices) {
  WriteFolder();
  const std::string small = EncodePng(Gradient(4, 2, 3));
  Write("voc/JPEGImages/a.jpg", small);
  const std::string source = StrCat("voc:", Text("voc"), ",Segmentation/train");
  EXPECT_THAT(ErrorOf([&] { Import(source, At("db"), {}); }),
              HasSubstr("b: " + Text("voc/SegmentationClass/b.png") + " does not exist"));
  const auto skip = ImportOptions::OnBadRecord::kSkip;
  const ImportReport report = Import(source, At("db"), {.on_bad_record = skip});
  EXPECT_THAT(report.skipped, ElementsAre("b: " + Text("voc/SegmentationClass/b.png") + " does not exist"));
  const auto records = Records();
  ASSERT_EQ(records.size(), 1U);
  const Image mask = Decoded(records[0].mask());
  EXPECT_EQ(mask.channels, 1);
  EXPECT_THAT(mask.pixels, ElementsAre(0, 1, 2, 255, 15, 15, 0, 1));
  EXPECT_TRUE(Schema().mask());
  EXPECT_EQ(Schema().mask_class_size(), 0);
}

TEST_F(VocImports, FaultsAreNamed) {
  WriteFolder();
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("voc:", Text("voc"), ",trian"), At("db"), {}); }),
              HasSubstr("ImageSets/Main/trian.txt does not exist; did you mean \"train\"?"));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("voc:", Text("nowhere"), ",train"), At("db"), {}); }),
              HasSubstr("nowhere is neither a folder nor one of an archive"));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("voc:", Text("voc")), At("db"), {}); }),
              HasSubstr("expected voc:ROOT,SPLIT[,CLASSES]"));
  Write("voc/ImageSets/Main/odd.txt", "a\nb c\n");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("voc:", Text("voc"), ",odd"), At("db"), {}); }),
              HasSubstr("odd.txt:2: expected a name, or a name and -1, 0 or 1, found \"b c\""));
  Write("voc/Annotations/c.xml", "<annotation>");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("voc:", Text("voc"), ",train"), At("db"), {}); }),
              HasSubstr("c: " + Text("voc/Annotations/c.xml") + ": this is no XML"));
  std::filesystem::remove(At("voc/JPEGImages/b.jpg"));
  const ImportReport report =
      Import(StrCat("voc:", Text("voc"), ",train"), At("db"), {.on_bad_record = ImportOptions::OnBadRecord::kSkip});
  EXPECT_EQ(report.records, 1);
  ASSERT_EQ(report.skipped.size(), 2U);
  EXPECT_THAT(report.skipped[0], HasSubstr("b: cannot open"));
  EXPECT_THAT(report.skipped[1], HasSubstr("c: "));
}

TEST_F(VocImports, NothingOfAnObjectIsPassedOver) {
  WriteFolder();
  const auto fault = [&](const std::string& object) {
    Write("voc/Annotations/c.xml", Voc(object));
    const std::string text = ErrorOf([&] { Import(StrCat("voc:", Text("voc"), ",val"), At("db"), {}); });
    return text.substr(std::min(text.size(), text.rfind(".xml: ") + 6));
  };
  const std::string box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax><ymax>5</ymax></bndbox>";
  EXPECT_EQ(fault("<object><name></name>" + box + "</object>"), "line 2: <name> is empty, expected a class");
  EXPECT_EQ(fault("<object><name>a</name>\n" + box + "\n" + box + "</object>"),
            "line 4: <object> has another <bndbox>");
  EXPECT_EQ(fault("<object><name>a</name><name>b</name>" + box + "</object>"), "line 2: <object> has another <name>");
  const auto flagged = [&](const std::string& flag) {
    Write("voc/Annotations/c.xml", Voc(Object("a", "1 1 5 5", flag)));
    return Import(StrCat("voc:", Text("voc"), ",val"), At(StrCat("flagged_", flag.size())), {}).warnings;
  };
  EXPECT_THAT(flagged("<difficult/>"), IsEmpty());
  EXPECT_THAT(flagged("<difficult>true</difficult>"), IsEmpty());
  EXPECT_THAT(flagged("<difficult>Unspecified</difficult>"),
              ElementsAre(HasSubstr("line 2: <difficult> is \"Unspecified\", expected 0 or 1: it is taken for 0")));
  Write("voc/ImageSets/Main/twice.txt", "b\nb\n");
  const ImportReport report = Import(StrCat("voc:", Text("voc"), ",twice"), At("twice"), {});
  EXPECT_EQ(report.records, 2);
  EXPECT_THAT(report.warnings, ElementsAre(Text("voc/ImageSets/Main/twice.txt") +
                                           ": 1 line names a picture again: \"b\" in lines 1 and 2; each line counts"));
  Write("voc/JPEGImages/b.png", EncodePng(Gradient(40, 20, 3)));
  EXPECT_EQ(Import(StrCat("voc:", Text("voc"), ",twice"), At("jpegs"), {}).records, 2);
  EXPECT_EQ(Records("jpegs")[0].picture(), ReadFile(At("voc/JPEGImages/b.jpg")));
  std::filesystem::rename(At("voc/JPEGImages/b.jpg"), At("voc/JPEGImages/b.gif"));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("voc:", Text("voc"), ",twice"), At("none"), {}); }),
              HasSubstr("has 2 pictures of the name \"b\": b.gif, b.png"));
}

TEST_F(VocImports, AnotherAnnotationIsAnotherImport) {
  WriteFolder();
  int64_t asked = 0;
  ImportOptions cut{.batch_records = 1, .wants_stop = [&] { return ++asked > 7; }};
  const std::string source = StrCat("voc:", Text("voc"), ",train");
  EXPECT_THAT(ErrorOf([&] { Import(source, At("db"), cut); }), HasSubstr("interrupted after"));
  Write("voc/Annotations/c.xml", Voc(Object("ant", "30 10 39 19")));
  EXPECT_THAT(ErrorOf([&] { Import(source, At("db"), {.batch_records = 1}); }), HasSubstr("items_crc32c"));
  const auto restart = ImportOptions::Unfinished::kRestart;
  EXPECT_EQ(Import(source, At("db"), {.unfinished = restart, .batch_records = 1}).records, 3);
}

// YOLO ----------------------------------------------------------------------------------------------------------------

TEST_F(SampleImports, YolosFilesBecomeBoxes) {
  for (const char* name : {"p/a.jpg", "p/b.jpg"}) Write(name, EncodeJpeg(Gradient(40, 20, 3)));
  Write("l/a.txt", "1 0.5 0.5 0.25 0.5\n0 0.900001 0.25 0.2 0.5\n");
  Write("l/c.txt", "");
  Write("l/classes.txt", "");
  Write("l/data.yaml", "");
  Write("names", "cat\ndog\n");
  const std::string source = StrCat("yolo:", Text("p"), ",", Text("l"), ",", Text("names"));
  const ImportReport report = Import(source, At("db"), {});
  EXPECT_EQ(report.records, 2);
  EXPECT_THAT(report.warnings, ElementsAre("without boxes, pictures without a file of boxes: 1 (b.jpg)",
                                           "left out, files of boxes without a picture: 1 (c.txt)",
                                           "left out, files that are no boxes by their names, which end in .txt: 1 "
                                           "(data.yaml)"));
  EXPECT_THAT(Schema().box_class(), ElementsAre("none", "cat", "dog"));
  const auto records = Records();
  EXPECT_THAT(Boxes(records[0]), ElementsAre("2 0.375 0.25 0.625 0.75", "1 0.800001 0 1 0.5"));
  EXPECT_THAT(Boxes(records[1]), IsEmpty());
  Write("l/data.yaml", "path: ../set\nnc: 2  # two\nnames:\n  0: c#\n  1: 'dog'  # barks\n");
  Import(StrCat("yolo:", Text("p"), ",", Text("l"), ",", Text("l/data.yaml")), At("by_yaml"), {});
  EXPECT_THAT(ReadSampleSchema(At("by_yaml")).box_class(), ElementsAre("none", "c#", "dog"));
  Write("names.json", "[\"cat\", \"dog\"]");
  EXPECT_THAT(
      ErrorOf([&] { Import(StrCat("yolo:", Text("p"), ",", Text("l"), ",", Text("names.json")), At("no"), {}); }),
      testing::HasSubstr("names.json is no list of names by its ending"));
  const auto fault = [&](const std::string& line) {
    Write("l/b.txt", "\n" + line);
    const std::string text = ErrorOf([&] { Import(source, At("none"), {}); });
    return text.substr(std::min(text.size(), text.rfind("b.txt: ") + 7));
  };
  EXPECT_EQ(fault("2 0.5 0.5 0.1 0.1"), "line 2: class 2 has no name, expected 0..1");
  EXPECT_EQ(fault("-1 0.5 0.5 0.1 0.1"), "line 2: class -1 has no name, expected 0..1");
  EXPECT_EQ(
      fault("0 10 5 20 15"),
      "line 2: 10 is no part of the picture's side, expected 0..1; corners in pixels are read by boxes:LIST,LABELMAP");
  EXPECT_EQ(fault("0 0.1 0.1 0.2"), "line 2: expected \"class x y width height\", found \"0 0.1 0.1 0.2\"");
  EXPECT_EQ(
      fault("0 0.1 0.1 0.2 0.2 0.9"),
      "line 2: expected \"class x y width height\", found \"0 0.1 0.1 0.2 0.2 0.9\"; a sixth number is a confidence: "
      "these are a detector's boxes, not labels");
  Write("names", "cat\ncat\n");
  EXPECT_THAT(ErrorOf([&] { Import(source, At("none"), {}); }),
              HasSubstr("names:2:1: the class \"cat\" is named in line 1 already"));
}

// Masks ---------------------------------------------------------------------------------------------------------------

TEST_F(SampleImports, MasksOfClasses) {
  Write("p/a.jpg", EncodeJpeg(Gradient(4, 2, 3)));
  Write("p/b.v2.png", EncodePng(Gradient(4, 2, 1)));
  const std::string gray = Gray(4, 2, {0, 1, 2, 3, 11, 255, 0, 7});
  Write("m/a.png", gray);
  Write("m/b.v2.png", ReadFile(MOKA_SOURCE_DIR "/tests/data/images/palette_4x2.png"));
  const std::string source = StrCat("masks:", Text("p"), ",", Text("m"));
  EXPECT_EQ(Import(source, At("db"), {}).records, 2);
  const auto records = Records();
  EXPECT_EQ(records[0].mask(), gray);
  EXPECT_EQ(records[0].picture(), ReadFile(At("p/a.jpg")));
  EXPECT_THAT(Decoded(records[1].mask()).pixels, ElementsAre(0, 1, 2, 255, 15, 15, 0, 1));
  EXPECT_EQ(Schema().ShortDebugString(), "version: 1 mask: true");
  EXPECT_EQ(ShuffleLmdb(At("db"), At("mixed"), {}), 2);
  EXPECT_EQ(ReadFile(At("mixed/schema.prototxt")), ReadFile(At("db/schema.prototxt")));
  Write("list.txt", "b.v2\n\na.jpg\n");
  Import(StrCat(source, ",", Text("list.txt")), At("listed"), {});
  EXPECT_EQ(LmdbReader(At("listed")).key(0), "00000000_b.v2.png");
  EXPECT_EQ(LmdbReader(At("listed")).key(1), "00000001_a.jpg");
}

TEST_F(SampleImports, MasksWithClassesByNameAndValue) {
  Write("p/a.png", EncodePng(Gradient(4, 1, 3)));
  Write("m/a.png", Gray(4, 1, {0, 255, 255, 7}));
  Write("classes", "0 membrane\n255 inside of a cell\n7 void\n");
  const std::string source = StrCat("masks:", Text("p"), ",", Text("m"), ",,", Text("classes"));
  EXPECT_EQ(Import(source, At("db"), {}).records, 1);
  EXPECT_THAT(Decoded(Records()[0].mask()).pixels, ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(Schema().ShortDebugString(),
            "version: 1 mask_class: \"membrane\" mask_class: \"inside of a cell\" mask_class: \"void\" mask: true");
  const auto fault = [&](const std::string& classes) {
    Write("classes", classes);
    return ErrorOf([&] { Import(source, At("other"), {}); });
  };
  EXPECT_THAT(fault("0 membrane\n7 void\n"), HasSubstr("the mask has value 255, which is no class's"));
  EXPECT_THAT(fault("0 a\nb\n"), HasSubstr("classes:2: either all lines begin with the class's value in the masks"));
  EXPECT_THAT(fault("0 a\n0 b\n"), HasSubstr("classes:2: value 0 is another class's already"));
  EXPECT_THAT(fault("\n"), HasSubstr("names 0 classes, expected 1 to 256"));
  EXPECT_THAT(fault("a\nb\na\n"), HasSubstr("classes:3:1: the class \"a\" is named in line 1 already"));
  EXPECT_THAT(fault("a\n\nb\n"), HasSubstr("classes:2:1: a blank line where the name of class 1 stands"));
  EXPECT_THAT(fault("sky\ntree\n"), HasSubstr("the mask has class 7, expected 0..1 by the 2 names, or 255"));
  Write("m/a.png", Gray(4, 1, {0, 255, 255, 1}));
  Import(source, At("named"), {});
  EXPECT_THAT(Decoded(Records("named")[0].mask()).pixels, ElementsAre(0, 255, 255, 1));
}

// Whatever lies in the folders becomes a record, is refused, or is counted.
TEST_F(SampleImports, MasksLeaveNothingOutUnsaid) {
  const std::string picture = EncodePng(Gradient(4, 1, 3));
  const std::string mask = Gray(4, 1, {0, 1, 1, 0});
  for (const char* name : {"a", "b"}) {
    Write(StrCat("p/", name, ".png"), picture);
    Write(StrCat("m/", name, ".png"), mask);
  }
  for (const char* name : {"p/sub/c.png", "p/readme.md", "p/.hidden.png", "p/Thumbs.db", "m/d.png", "m/e.png"}) {
    Write(name, picture);
  }
  const std::string folders = StrCat(Text("p"), ",", Text("m"));
  for (const char* kind : {"masks:", "instances:"}) {
    const ImportReport report = Import(kind + folders, At(StrCat("db_", kind)), {});
    EXPECT_EQ(report.records, 2) << kind;
    EXPECT_THAT(
        report.warnings,
        ElementsAre(StrCat("left out, files that are no pictures by their names: 1 (", Text("p/readme.md"), ")"),
                    StrCat("left out, folders, which are not looked into: 1 (", Text("p/sub"), ")"),
                    StrCat("left out, masks without a picture: 2 (", Text("m/d.png"), ", ", Text("m/e.png"), ")")))
        << kind;
  }
  Write("list", "b\na\nb.png\n");
  const ImportReport listed = Import(StrCat("masks:", folders, ",", Text("list")), At("listed"), {});
  EXPECT_EQ(listed.records, 3);
  EXPECT_THAT(
      listed.warnings,
      ElementsAre(Text("list") + ": 1 line names a picture again: \"b.png\" in lines 1 and 3; each line counts"));
  Write("list", "sub/a.jpg\n");  // of the pictures before they were converted
  EXPECT_EQ(Import(StrCat("masks:", folders, ",", Text("list")), At("converted"), {}).records, 1);
  Write("list", "sub/x.png\n");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("masks:", folders, ",", Text("list")), At("none"), {}); }),
              HasSubstr("list:1: " + Text("p") + " has no picture of the name \"sub/x.png\""));
  Write("p/a.jpg", EncodeJpeg(Gradient(4, 1, 3)));
  EXPECT_THAT(ErrorOf([&] { Import("masks:" + folders, At("none"), {}); }),
              HasSubstr(Text("p") + " has 2 pictures of the name \"a\": a.jpg, a.png"));
  Write("list", "a.jpg\nb\n");  // says which
  EXPECT_EQ(Import(StrCat("masks:", folders, ",", Text("list")), At("said"), {}).records, 2);
  EXPECT_EQ(LmdbReader(At("said")).key(0), "00000000_a.jpg");
  std::filesystem::remove(At("p/a.jpg"));
  std::filesystem::remove(At("p/a.png"));
  std::filesystem::create_symlink("nowhere.png", At("p/a.png"));
  EXPECT_THAT(ErrorOf([&] { Import("masks:" + folders, At("none"), {}); }),
              HasSubstr("cannot open " + Text("p/a.png")));
}

TEST_F(SampleImports, MasksWhoseObjectsWouldBeIgnoredAreTold) {
  Write("p/a.png", EncodePng(Gradient(4, 1, 3)));
  Write("p/b.png", EncodePng(Gradient(4, 1, 3)));
  Write("m/a.png", Gray(4, 1, {0, 255, 255, 0}));
  Write("m/b.png", Gray(4, 1, {0, 0, 0, 0}));
  const std::string source = StrCat("masks:", Text("p"), ",", Text("m"));
  EXPECT_THAT(
      Import(source, At("db"), {}).warnings,
      ElementsAre(HasSubstr("the masks have no values but 0 and 255, which stands for pixels without a class")));
  Write("classes", "0 background\n255 cell\n");
  EXPECT_THAT(Import(StrCat(source, ",,", Text("classes")), At("named"), {}).warnings, IsEmpty());
  Write("m/b.png", Gray(4, 1, {0, 1, 255, 0}));
  EXPECT_THAT(Import(source, At("three"), {}).warnings, IsEmpty());
  const LmdbSummary summary = InspectLmdb(At("three"));
  EXPECT_THAT(summary.mask_pixels, ElementsAre(testing::Pair(0, 4), testing::Pair(1, 1), testing::Pair(255, 3)));
  Write("three/schema.prototxt", "version: 1 mask: true mask_class: \"none\"");
  const LmdbVerdict verdict = VerifyLmdb(At("three"));
  ASSERT_EQ(verdict.bad.size(), 1U);
  EXPECT_EQ(verdict.bad[0].reason,
            "the mask has class 1, expected 0..0 by the 1 names, or 255 for pixels that have none");
}

TEST_F(SampleImports, MasksFollowTheirPicturesSize) {
  Write("p/a.png", EncodePng(Gradient(4, 2, 3)));
  Write("m/a.png", Gray(4, 2, {1, 1, 2, 2, 3, 3, 9, 9}));
  const std::string folders = StrCat(Text("p"), ",", Text("m"));
  const ImportOptions half{.storage = ImportOptions::Storage::kRaw, .height = 4, .width = 2};
  Import("masks:" + folders, At("db"), half);
  const SampleRecord record = Records()[0];
  EXPECT_EQ(record.channels(), 3U);
  EXPECT_EQ(record.height(), 4U);
  EXPECT_EQ(record.width(), 2U);
  EXPECT_EQ(record.picture().size(), 24U);
  EXPECT_THAT(Decoded(record.mask()).pixels, ElementsAre(1, 2, 1, 2, 3, 9, 3, 9));
  Import("instances:" + folders, At("objects"), half);
  const SampleRecord objects = Records("objects")[0];
  EXPECT_THAT(Boxes(objects), ElementsAre("1 0 0 0.5 0.5", "1 0.5 0 1 0.5", "1 0 0.5 0.5 1", "1 0.5 0.5 1 1"));
  EXPECT_THAT(Runs(objects.box(1)), ElementsAre(4, 2, 2));
}

TEST_F(SampleImports, ObjectsByNumber) {
  Write("p/a.png", EncodePng(Gradient(4, 3, 1)));
  Write("m/a.png",
        ReadFile(MOKA_SOURCE_DIR "/tests/data/images/numbers16_4x3.png"));  // 0 300 300 0 / 7 300 0 0 / 7 7 0 65535
  const ImportReport report = Import(StrCat("instances:", Text("p"), ",", Text("m")), At("db"), {});
  EXPECT_EQ(report.records, 1);
  const SampleRecord record = Records()[0];
  EXPECT_THAT(Boxes(record), ElementsAre("1 0 0.33333334 0.5 1", "1 0.25 0 0.75 0.6666667", "1 0.75 0.6666667 1 1"));
  EXPECT_THAT(Runs(record.box(0)), ElementsAre(1, 2, 2, 1, 6));
  EXPECT_THAT(Runs(record.box(1)), ElementsAre(3, 2, 1, 1, 5));
  EXPECT_THAT(Runs(record.box(2)), ElementsAre(11, 1));
  EXPECT_EQ(Schema().ShortDebugString(),
            "version: 1 box_class: \"none\" box_class: \"object\" boxes: true box_masks: true");
}

TEST_F(SampleImports, MasksFaultsAreNamed) {
  Write("p/a.png", EncodePng(Gradient(4, 2, 3)));
  const std::string source = StrCat("masks:", Text("p"), ",", Text("m"));
  const auto fault = [&](const std::string& mask) {
    Write("m/a.png", mask);
    return ErrorOf([&] { Import(source, At("db"), {}); });
  };
  EXPECT_THAT(fault(EncodePng(Gradient(4, 2, 3))), HasSubstr("a.png: cannot decode the PNG: it has colours"));
  EXPECT_THAT(fault(EncodePng(Gradient(4, 3, 1))), HasSubstr("a.png: the mask is 4 x 3 and the picture 4 x 2"));
  EXPECT_THAT(fault(EncodeJpeg(Gradient(4, 2, 1))), HasSubstr("a.png: a mask must be a PNG"));
  EXPECT_THAT(fault(ReadFile(MOKA_SOURCE_DIR "/tests/data/images/numbers16_4x3.png")), HasSubstr("the mask is 4 x 3"));
  Write("p/a.png", EncodePng(Gradient(4, 3, 3)));
  EXPECT_THAT(fault(ReadFile(MOKA_SOURCE_DIR "/tests/data/images/numbers16_4x3.png")),
              HasSubstr("the mask has class 65535, at most 255 can be"));
  std::filesystem::remove(At("m/a.png"));
  EXPECT_THAT(ErrorOf([&] { Import(source, At("db"), {}); }),
              HasSubstr("a.png: " + Text("m") + " has no mask of its name"));
  Write("list.txt", "a\nz\n");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat(source, ",", Text("list.txt")), At("db"), {}); }),
              HasSubstr("list.txt:2: " + Text("p") + " has no picture of the name \"z\""));
}

}  // namespace
}  // namespace moka
