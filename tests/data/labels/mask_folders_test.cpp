// Masks are found by names of folders, and told from classes and from smoothed pictures by their files' names and
// values.
#include "data/labels/mask_folders.h"

#include "core/text.h"
#include "data/import/import.h"
#include "tests/data/sample_fixture.h"

namespace moka {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MaskFolderTest : public DataTest {
 protected:
  std::vector<std::string> PartsOf(const std::string& name) const {
    std::vector<std::string> texts;
    for (const MaskFolders& found : MaskFoldersOf(At(name))) {
      texts.push_back(StrCat(found.part, " ", found.pictures.lexically_relative(At(name)).string(), " ",
                             found.masks.lexically_relative(At(name)).string()));
    }
    return texts;
  }
};

TEST_F(MaskFolderTest, LayoutsOfPeopleAreFound) {
  for (const char* file :
       {"plain/images/a.png", "plain/masks/a.png", "parts/train/image/a.png", "parts/train/label/a.png",
        "parts/val/img/b.png", "parts/val/annots/b.png", "camvid/train/a.png", "camvid/trainannot/a.png",
        "camvid/val/a.png", "camvid/valannot/a.png", "inside/images/train/a.png", "inside/masks/train/a.png",
        "classes/cat/a.png", "classes/dog/a.png"}) {
    Write(file, "");
  }
  EXPECT_THAT(PartsOf("plain"), ElementsAre("train images masks"));
  EXPECT_THAT(PartsOf("parts"), ElementsAre("train train/image train/label", "val val/img val/annots"));
  EXPECT_THAT(PartsOf("camvid"), ElementsAre("train train trainannot", "val val valannot"));
  EXPECT_THAT(PartsOf("inside"), ElementsAre("train images/train masks/train"));
  EXPECT_THAT(PartsOf("classes"), IsEmpty());
}

TEST_F(MaskFolderTest, TheyAreNoClasses) {
  for (const char* file : {"set/images/a.jpg", "set/images/b.jpg", "set/masks/a.png", "set/masks/b.png"})
    Write(file, "");
  const auto refused = [&] { return ErrorOf([&] { ImportFolder(At("set"), At("out"), {}); }); };
  EXPECT_THAT(refused(), AllOf(HasSubstr("hold pictures and masks of the same names, and are no classes"),
                               HasSubstr(StrCat("masks:", At("set/images").string(), ",", At("set/masks").string())),
                               HasSubstr("--classes FILE")));
  // Names of other files are no masks of these pictures.
  for (const char* file : {"set/images/c.jpg", "set/images/d.jpg"}) Write(file, "");
  EXPECT_THAT(refused(), Not(HasSubstr("no classes")));
}

TEST_F(MaskFolderTest, SmoothedBordersAreToldFromClasses) {
  std::map<int64_t, int64_t> smoothed = {{0, 9000}, {255, 3000}};
  for (int64_t value = 3; value < 250; value += 7) smoothed[value] = value % 5 + 1;
  EXPECT_THAT(
      SmoothedMaskFault(smoothed),
      HasSubstr("the masks' borders are smoothed: 36 values lie between 0 and 255, which most of the pixels have"));
  std::map<int64_t, int64_t> voc = {{0, 7300}, {255, 500}};  // 20 classes, background, and pixels that do not count
  for (int64_t value = 1; value <= 20; ++value) voc[value] = 110;
  EXPECT_EQ(SmoothedMaskFault(voc), "");
  std::map<int64_t, int64_t> many;  // classes alike in number
  for (int64_t value = 0; value < 150; ++value) many[value] = 100;
  EXPECT_EQ(SmoothedMaskFault(many), "");
  EXPECT_EQ(SmoothedMaskFault({{0, 90}, {128, 1}, {255, 30}}), "") << "three values are three classes";
  EXPECT_EQ(SmoothedMaskFault({}), "");
}

}  // namespace
}  // namespace moka
