// Layouts of annotated pictures are told by names of folders; a folder of classes that are called so stays one.
#include "data/labels/annotated_layout.h"

#include "core/text.h"
#include "data/import/import.h"
#include "tests/data/sample_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AnnotatedLayouts : public DataTest {
 protected:
  std::string Place(const std::string& name) const { return At(name).string(); }
};

TEST_F(AnnotatedLayouts, VocHasAPartForEachListOfAllClasses) {
  for (const char* file : {"JPEGImages/a.jpg", "Annotations/a.xml", "ImageSets/Main/train.txt",
                           "ImageSets/Main/val.txt", "ImageSets/Main/cat_val.txt"}) {
    Write(StrCat("set/VOC2007/", file), "");
  }
  const AnnotatedLayout layout = AnnotatedLayoutOf(At("set/VOC2007"));
  EXPECT_EQ(layout.name, "VOC");
  EXPECT_THAT(layout.sources, ElementsAre(StrCat("voc:", Place("set/VOC2007"), ",train"),
                                          StrCat("voc:", Place("set/VOC2007"), ",val")));
  EXPECT_EQ(AnnotatedLayoutOf(At("set")).sources, layout.sources);
}

TEST_F(AnnotatedLayouts, CocoHasAPartForEachFileOfAnnotations) {
  for (const char* file : {"a/annotations/instances_train2017.json", "a/annotations/instances_val2017.json",
                           "a/annotations/captions_val2017.json", "a/train2017/1.jpg", "a/val2017/2.jpg",
                           "b/train/_annotations.coco.json", "b/train/1.jpg", "b/valid/_annotations.coco.json"}) {
    Write(file, "");
  }
  EXPECT_EQ(AnnotatedLayoutOf(At("a")).name, "COCO");
  EXPECT_THAT(AnnotatedLayoutOf(At("a")).sources,
              ElementsAre(StrCat("coco:", Place("a/annotations/instances_train2017.json"), ",", Place("a/train2017")),
                          StrCat("coco:", Place("a/annotations/instances_val2017.json"), ",", Place("a/val2017"))));
  EXPECT_THAT(AnnotatedLayoutOf(At("b")).sources,
              ElementsAre(StrCat("coco:", Place("b/train/_annotations.coco.json"), ",", Place("b/train")),
                          StrCat("coco:", Place("b/valid/_annotations.coco.json"), ",", Place("b/valid"))));
}

TEST_F(AnnotatedLayouts, YoloHasLabelsBesideImagesInEitherOrder) {
  for (const char* file :
       {"a/images/train/1.jpg", "a/labels/train/1.txt", "a/images/val/2.jpg", "a/labels/val/2.txt", "a/classes.txt",
        "b/valid/images/1.jpg", "b/valid/labels/1.txt", "c/images/1.jpg", "c/labels/1.txt", "c/obj.names"}) {
    Write(file, "");
  }
  EXPECT_THAT(
      AnnotatedLayoutOf(At("a")).sources,
      ElementsAre(StrCat("yolo:", Place("a/images/train"), ",", Place("a/labels/train"), ",", Place("a/classes.txt")),
                  StrCat("yolo:", Place("a/images/val"), ",", Place("a/labels/val"), ",", Place("a/classes.txt"))));
  EXPECT_THAT(AnnotatedLayoutOf(At("b")).sources,
              ElementsAre(StrCat("yolo:", Place("b/valid/images"), ",", Place("b/valid/labels"), ",CLASSES")));
  EXPECT_THAT(AnnotatedLayoutOf(At("c")).sources,
              ElementsAre(StrCat("yolo:", Place("c/images"), ",", Place("c/labels"), ",", Place("c/obj.names"))));
}

TEST_F(AnnotatedLayouts, TheyAreNotImportedAsClassesUnlessTheClassesAreNamed) {
  const std::string picture = EncodePng(Gradient(4, 4, 3));
  for (const char* file : {"set/JPEGImages/a.jpg", "set/Annotations/a.jpg"}) Write(file, picture);
  Write("set/Annotations/a.xml", "<annotation/>");
  Write("set/ImageSets/Main/train.txt", "a\n");
  EXPECT_THAT(ErrorOf([&] { Import(Place("set"), At("db"), {}); }),
              HasSubstr("its folders are those of VOC's annotated pictures, and not classes"));
  Write("names", "Annotations\nJPEGImages\n");
  ImportOptions options;
  options.classes = At("names");
  EXPECT_EQ(Import(Place("set"), At("db"), options).records, 2);
  Write("other/images/1.jpg", picture);
  Write("other/labels/1.jpg", picture);
  EXPECT_THAT(AnnotatedLayoutOf(At("other")).sources, IsEmpty());
}

}  // namespace
}  // namespace moka
