// ImageNet from its archives to trained nets: docs/imagenet.md's commands on a set of a few pictures in the published
// layout.
#include <gmock/gmock.h>

#include "tests/data/import/made_imagenet.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

class ImagenetCliTest : public CliTest {
 protected:
  // The sets of both recipes' sizes, made once: stored as published, and as squares.
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    MakeImagenet(folder_ / "ILSVRC2012", 3);
    for (const auto& [flags, kind] :
         {std::pair("", "published"), std::pair(" --resize 256x256 --storage jpeg", "squares")}) {
      for (const char* part : {"train", "val"}) {
        const Outcome made = Moka(StrCat("data import imagenet:ILSVRC2012,", part, " ", kind, "/data/ilsvrc12/", part,
                                         " --shuffle 1", flags));
        EXPECT_EQ(made.code, 0) << made.err;
        EXPECT_THAT(made.out,
                    HasSubstr(part == std::string("train") ? "9 records, 3 classes" : "3 records, 3 classes"));
      }
    }
  }
  // Runs moka in the folder of a set.
  static Outcome In(const std::string& set, const std::string& words) {
    return RunShell(StrCat("cd '", (folder_ / set).string(), "' && OMP_NUM_THREADS=2 '", MOKA_BINARY, "' ", words),
                    folder_);
  }
  // Two iterations and a test of a recipe by small batches.
  static Outcome Train(const std::string& set, const std::string& model) {
    return In(set,
              StrCat("train '", MOKA_SOURCE_DIR, "/models/", model, "' 'layer[*].data_param.batch_size=2' max_iter=2 ",
                     "'test_iter=[2]' test_interval=2 display=1 iter_size=1 --no-report"));
  }
};

TEST_F(ImagenetCliTest, DatabasesAreWhole) {
  for (const char* database : {"published/data/ilsvrc12/train", "squares/data/ilsvrc12/val"}) {
    const Outcome verified = Moka(StrCat("data verify ", database));
    EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  }
  EXPECT_EQ(ReadFile(folder_ / "published/data/ilsvrc12/train/labels.txt"),
            "n01440764 thing 2, object\nn02105855 thing 3, object\nn02119789 thing 1, object\n");
}

TEST_F(ImagenetCliTest, ResNetTrainsOnPicturesAsPublished) {
  const Outcome trained = Train("published", "resnet50");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(ReadFile(folder_ / "published/runs/resnet50-0001/metrics.jsonl"), HasSubstr("\"accuracy\""));
}

TEST_F(ImagenetCliTest, AlexNetTrainsOnSquares) {
  const Outcome trained = Train("squares", "alexnet_bn");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(ReadFile(folder_ / "squares/runs/alexnet_bn-0001/metrics.jsonl"), HasSubstr("\"accuracy\""));
}

TEST_F(ImagenetCliTest, GrayPicturesAloneAreTakenByNetsForColor) {
  fs::create_directories(folder_ / "grey/a");
  for (int i = 0; i < 4; ++i)
    WriteFileAtomically(folder_ / StrCat("grey/a/", i, ".jpg"), EncodeJpeg(MadePicture(300, 280, 1, i)));
  for (const char* part : {"train", "val"})
    ASSERT_EQ(Moka(StrCat("data import grey greys/data/ilsvrc12/", part)).code, 0);
  const Outcome trained = Train("greys", "squeezenet11");
  EXPECT_EQ(trained.code, 0) << trained.err;
}

}  // namespace
}  // namespace moka
