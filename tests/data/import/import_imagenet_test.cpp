// ILSVRC-2012 as it is published: classes have alphabetical numbers whoever says them, odd pictures are told by
// content, and what is missing or does not fit is named.
#include "data/files/mat_file.h"
#include "data/import/import.h"
#include "data/labels/imagenet_classes.h"
#include "data/records/datum_view.h"
#include "tests/data/data_fixture.h"
#include "tests/data/import/made_imagenet.h"

namespace moka {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class ImagenetImports : public DataTest {
 protected:
  ImagenetImports() { MakeImagenet(At("raw"), 3); }
  std::string Source(const std::string& part) const { return StrCat("imagenet:", At("raw").string(), ",", part); }
  ImportReport Take(const std::string& part, const ImportOptions& options = {}) const {
    return Import(Source(part), At(part), options);
  }
  std::string Fault(const std::string& part) const {
    return ErrorOf([&] { Take(part); });
  }
  // "KEY LABEL CxHxW" of each record.
  std::vector<std::string> Records(const std::string& database) const {
    std::vector<std::string> records;
    const LmdbReader reader(At(database));
    for (int64_t i = 0; i < reader.size(); ++i) {
      const DatumView datum = ParseDatum(reader.value(i));
      records.push_back(
          StrCat(reader.key(i), " ", datum.label, " ", datum.channels, "x", datum.height, "x", datum.width));
    }
    return records;
  }
  void RemoveKit() const { std::filesystem::remove(At("raw/ILSVRC2012_devkit_t12.tar.gz")); }
};

TEST_F(ImagenetImports, TheTrainingsArchivesBecomeRecordsOfAlphabeticalClasses) {
  const ImportReport report = Take("train");
  EXPECT_EQ(report.records, 9);
  EXPECT_THAT(report.labels,
              ElementsAre("n01440764 thing 2, object", "n02105855 thing 3, object", "n02119789 thing 1, object"));
  EXPECT_THAT(
      Records("train"),
      ElementsAre("00000000_n02119789/n02119789_3.JPEG 2 3x280x300", "00000001_n02119789/n02119789_13.JPEG 2 1x280x320",
                  "00000002_n02119789/n02119789_23.JPEG 2 3x280x340", "00000003_n01440764/n01440764_3.JPEG 0 3x300x320",
                  "00000004_n01440764/n01440764_13.JPEG 0 1x280x320",
                  "00000005_n01440764/n01440764_23.JPEG 0 3x280x340", "00000006_n02105855/n02105855_3.JPEG 1 3x280x300",
                  "00000007_n02105855/n02105855_13.JPEG 1 1x280x320",
                  "00000008_n02105855/n02105855_23.JPEG 1 3x280x340"));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("has 9 pictures, the published one 1281167")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("CMYK")));
}

TEST_F(ImagenetImports, ValidationPicturesHaveTheClassesOfTheKit) {
  const ImportReport report = Take("val", {.storage = ImportOptions::Storage::kJpeg, .short_side = 256});
  // 1 -> number 3, n02105855; 2 -> number 2, n01440764; 3 -> number 1, n02119789.
  EXPECT_THAT(Records("val"), ElementsAre("00000000_ILSVRC2012_val_00000001.JPEG 1 3x256x273",
                                          "00000001_ILSVRC2012_val_00000002.JPEG 0 1x256x272",
                                          "00000002_ILSVRC2012_val_00000003.JPEG 2 3x256x271"));
  EXPECT_THAT(ReadFile(At("val/import.json")), HasSubstr("256"));
}

TEST_F(ImagenetImports, OtherListsOfClassesNumberAlike) {
  RemoveKit();
  Write("raw/synset_words.txt", "n02119789 kit fox\nn01440764 tench, Tinca tinca\nn02105855 Shetland sheepdog\n");
  Write("raw/val.txt",
        "ILSVRC2012_val_00000002.JPEG 0\nILSVRC2012_val_00000001.JPEG 1\nILSVRC2012_val_00000003.JPEG 2\n");
  Take("val");
  const std::vector<std::string> by_list = Records("val");
  std::filesystem::remove(At("raw/val.txt"));
  Write("raw/imagenet_2012_validation_synset_labels.txt", "n02105855\nn01440764\nn02119789\n");
  Import(Source("val"), At("by_synsets"), {});
  EXPECT_EQ(Records("by_synsets"), by_list);
  EXPECT_THAT(by_list[0], HasSubstr("00000001.JPEG 1 "));
  // Without any list the archives of the classes number themselves.
  std::filesystem::remove(At("raw/synset_words.txt"));
  EXPECT_THAT(Take("train").labels, ElementsAre("n01440764", "n02105855", "n02119789"));
  EXPECT_THAT(Fault("val"), HasSubstr("says which classes its pictures are of"));
}

TEST_F(ImagenetImports, ShuffledAndCutImportsMakeTheSameDatabase) {
  MakeImagenet(At("raw"), 60);  // enough for commits before all of them are under way
  const ImportOptions shuffled{.shuffle_seed = 5, .batch_records = 2};
  int64_t asked_in_all = 0;
  ImportOptions counted = shuffled;
  counted.wants_stop = [&] { return ++asked_in_all < 0; };
  Take("train", counted);
  const std::string whole = ReadFile(At("train/data.mdb"));
  std::filesystem::remove_all(At("train"));
  int64_t asked = 0;
  ImportOptions cut = shuffled;
  cut.workers = 1;
  cut.wants_stop = [&] { return ++asked > asked_in_all * 7 / 8; };
  EXPECT_THAT(ErrorOf([&] { Take("train", cut); }), HasSubstr("interrupted"));
  const ImportReport report = Take("train", shuffled);
  EXPECT_GE(report.resumed_at, 2);
  EXPECT_EQ(ReadFile(At("train/data.mdb")), whole);
}

TEST_F(ImagenetImports, FaultsAreNamed) {
  EXPECT_THAT(Fault("test"), HasSubstr("PART is train or val, not \"test\""));
  Write("raw/ILSVRC2012_devkit_t12.tar.gz", "no archive");
  EXPECT_THAT(Fault("train"), HasSubstr("ILSVRC2012_devkit_t12.tar.gz"));
  RemoveKit();
  Write("raw/synsets.txt", "n01440764\nn0210585\n");
  EXPECT_THAT(Fault("train"), HasSubstr("synsets.txt:2: \"n0210585\" is no synset, expected n and eight digits"));
  Write("raw/synsets.txt", "n01440764\nn02105855\n");
  EXPECT_THAT(Fault("train"), HasSubstr("n02119789.tar is of no class that"));
  Write("raw/val.txt", "ILSVRC2012_val_00000001.JPEG 2\n");
  EXPECT_THAT(Fault("val"), HasSubstr("val.txt:1: \"ILSVRC2012_val_00000001.JPEG 2\" is no picture"));
  Write("raw/val.txt", "ILSVRC2012_val_00000002.JPEG 1\n");
  EXPECT_THAT(Fault("val"), HasSubstr("val.txt: picture 1 is missing"));
  Write("raw/val.txt", "ILSVRC2012_val_00000001.JPEG 1\n");
  EXPECT_THAT(Fault("val"), HasSubstr("ILSVRC2012_val_00000002.JPEG has no class"));
  std::filesystem::remove(At("raw/ILSVRC2012_img_val.tar"));
  EXPECT_THAT(Fault("val"), HasSubstr("there is no "));
  const std::string train = ReadFile(At("raw/ILSVRC2012_img_train.tar"));
  std::filesystem::remove(At("raw/synsets.txt"));
  Write("raw/ILSVRC2012_img_train.tar", train.substr(0, train.size() / 2));
  EXPECT_THAT(Fault("train"), HasSubstr("ILSVRC2012_img_train.tar"));
  Write("raw/ILSVRC2012_img_train.tar", Gzipped(train, At("scratch")));
  EXPECT_THAT(Fault("train"), HasSubstr("is compressed"));
  Write("raw/ILSVRC2012_img_train.tar", TarMember("n01440764.tgz", "x") + std::string(1024, '\0'));
  EXPECT_THAT(Fault("train"), HasSubstr("has no members as n01440764.tar"));
}

TEST_F(ImagenetImports, NumbersOfSynsetsAreWholeOrRefused) {
  RemoveKit();
  Write("raw/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", "1\n2\n3\n");
  for (const double number : {1.5, -1.0, 1e300}) {
    Write("raw/ILSVRC2012_devkit_t12/data/meta.mat", MadeMeta(true, number));
    EXPECT_THAT(Fault("val"), HasSubstr(StrCat("meta.mat: synset n02119789 has the number ", number,
                                               ", expected a whole one from 1 to 100000")));
  }
}

// Each element is within its bounds, and all of them together are not.
TEST(MatFile, TheWholeFileIsBounded) {
  using namespace made_imagenet;
  constexpr size_t kMany = size_t{24} << 20;
  const std::string zeros = Matrix(6, {1, 1}, "zeros", Element(2, std::string(kMany, '\0')));
  const std::string wide = MatHeader() + zeros;
  EXPECT_THAT(ErrorOf([&] { ReadMatFile(wide, "meta.mat"); }), HasSubstr("meta.mat: has values of more than 128.0 MiB"));
  const std::string unread = Packed(Element(2, std::string(kMany, '\0')));
  EXPECT_TRUE(ReadMatFile(MatHeader() + unread + unread, "meta.mat").empty());
  EXPECT_THAT(ErrorOf([&] { ReadMatFile(MatHeader() + unread + unread + unread, "meta.mat"); }),
              HasSubstr("unpacks to more than 64.0 MiB"));
}

TEST(MatFile, DamagedOnesAreRefused) {
  const std::string plain = MadeMeta(false);
  EXPECT_EQ(ReadMatFile(plain, "m")[0].At(0, "WNID").text, "n02119789");
  EXPECT_EQ(ReadMatFile(MadeMeta(true), "m")[0].At(3, "num_children").numbers, std::vector<double>{3});
  EXPECT_THAT(ErrorOf([&] { ReadMatFile(plain, "m")[0].At(0, "gloss"); }), HasSubstr("no field gloss"));
  EXPECT_THAT(ErrorOf([&] { ReadMatFile("MATLAB 7.3", "m"); }), HasSubstr("m: is no MATLAB file of version 5"));
  std::string packed = MadeMeta(true);
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
  EXPECT_THAT(ErrorOf([&] { ReadMatFile(packed, "m"); }), HasSubstr("m: "));
  for (size_t bytes = 128; bytes < plain.size(); bytes += 7) {
    try {
      ReadMatFile(std::string_view(plain).substr(0, bytes), "m");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    }
  }
}

}  // namespace
}  // namespace moka
