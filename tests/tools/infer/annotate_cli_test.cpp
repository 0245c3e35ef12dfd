// moka infer --annotate for classifiers: class folders that an import reads back, the most uncertain pictures first,
// and what is refused. The net's scores are the softmax of a picture's mean colours.
#include <cmath>

#include "data/image/image.h"
#include "data/records/lmdb_file.h"
#include "proto/moka.pb.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class AnnotateCliTest : public CliTest {
 protected:
  void SetUp() override {
    for (const char* name : {"pictures", "found"}) fs::remove_all(folder_ / name);
    fs::create_directories(folder_ / "colours");
    fs::create_directories(folder_ / "pictures");
    WriteFileAtomically(folder_ / "colours/deploy.prototxt", kNet);
    WriteFileAtomically(folder_ / "colours/labels.txt", "blue\nn/a\nred\n");
    NetParameter weights;
    LayerParameter& layer = *weights.add_layer();
    layer.set_name("score");
    layer.set_type("Convolution");
    BlobProto& blob = *layer.add_blobs();
    for (const int dim : {3, 3, 1, 1}) blob.mutable_shape()->add_dim(dim);
    for (int i = 0; i < 9; ++i) blob.add_data(i % 4 == 0 ? 0.02F : 0);
    WriteFileAtomically(folder_ / "colours/net.caffemodel", weights.SerializeAsString());
    Paint("blue one.png", {0, 0, 0, 0});
    Paint("mixed.png", {0, 0, 1, 1});
    Paint("red.png", {2, 2, 2, 2});
  }

  // A picture whose quarters of columns have these channels.
  static void Paint(const std::string& name, const std::vector<int>& channels) {
    Image picture;
    picture.Resize(4, 4, 3);
    for (size_t i = 0; i < 16; ++i) picture.pixels[i * 3 + static_cast<size_t>(channels[i % 4])] = 200;
    WriteFileAtomically(folder_ / "pictures" / name, EncodePng(picture));
  }

  static Outcome Annotate(const std::string& flags) {
    return Moka("infer colours --weights colours/net.caffemodel pictures " + flags);
  }

  static constexpr const char* kNet = R"(
name: "colours"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer {
  name: "score" type: "Convolution" bottom: "data" top: "score"
  convolution_param { num_output: 3 bias_term: false kernel_size: 1 }
}
layer { name: "mean" type: "Pooling" bottom: "score" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "prob" type: "Softmax" bottom: "mean" top: "prob" }
)";
};

TEST_F(AnnotateCliTest, ClassFoldersAreImportedAsTheClassesFound) {
  const Outcome made = Annotate("--annotate folders --out found --json");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.err.find("moka data import found/images DATABASE --classes found/labels.txt"), std::string::npos)
      << made.err;
  EXPECT_NE(made.err.find("1 picture's name has blanks"), std::string::npos) << made.err;
  EXPECT_NE(made.err.find("class 1, \"n/a\", is called \"n_a\""), std::string::npos) << made.err;
  EXPECT_EQ(Json::parse(made.out)[2].at("annotation"), "found/images/red/red.png");
  EXPECT_EQ(ReadFile(folder_ / "found/labels.txt"), "blue\nn_a\nred\n");
  EXPECT_EQ(ReadFile(folder_ / "found/images/blue/blue_one.png"), ReadFile(folder_ / "pictures/blue one.png"));
  // The two best of "mixed" are alike: a margin of 0.
  const std::vector<std::string> lines = Split(ReadFile(folder_ / "found/uncertainty.csv"), '\n');
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "picture,file,uncertainty,class,score");
  EXPECT_EQ(lines[1].substr(0, 50), "images/blue/mixed.png,pictures/mixed.png,1.000000,");
  const double p = 1 / (1 + 2 * std::exp(-4.0));
  EXPECT_NEAR(Json::parse(made.out)[0].at("uncertainty").get<double>(), 1 - (p - (1 - p) / 2), 1e-5);

  const Outcome imported = Moka("data import found/images db --classes found/labels.txt");
  ASSERT_EQ(imported.code, 0) << imported.err;
  const LmdbReader reader(folder_ / "db");
  ASSERT_EQ(reader.size(), 3);
  std::vector<int> labels;
  for (int64_t i = 0; i < 3; ++i) {
    Datum datum;
    ASSERT_TRUE(datum.ParseFromString(std::string(reader.value(i))));
    labels.push_back(datum.label());
  }
  EXPECT_EQ(labels, (std::vector<int>{0, 0, 2}));
}

// A file without an ending gets that of its format, by which an earlier copy is found.
TEST_F(AnnotateCliTest, AFileWithoutAnEndingHasOneClass) {
  fs::copy_file(folder_ / "pictures/mixed.png", folder_ / "mixed");
  const std::string line = "infer colours --weights colours/net.caffemodel mixed --annotate folders --out found";
  ASSERT_EQ(Moka(line + " --score 0.9").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "found/unsure/mixed.png"));
  const Outcome again = Moka(line);
  EXPECT_EQ(again.code, 73) << again.err;
  EXPECT_NE(again.err.find("found/unsure/mixed.png is there from an earlier run"), std::string::npos) << again.err;
  EXPECT_FALSE(fs::exists(folder_ / "found/images/blue/mixed.png"));
}

TEST_F(AnnotateCliTest, PicturesBelowTheScoreAreUnsure) {
  ASSERT_EQ(Annotate("--annotate folders --out found --score 0.9").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "found/unsure/mixed.png"));
  EXPECT_FALSE(fs::exists(folder_ / "found/images/blue/mixed.png"));
  EXPECT_TRUE(fs::exists(folder_ / "found/images/red/red.png"));
  // Another threshold would give the picture a class beside its former place.
  const Outcome again = Annotate("--annotate folders --out found");
  EXPECT_EQ(again.code, 73) << again.err;
  EXPECT_NE(
      again.err.find("found/unsure/mixed.png is there from an earlier run, and this one puts it into images/blue"),
      std::string::npos)
      << again.err;
}

TEST_F(AnnotateCliTest, KindsThatDoNotFitAreRefused) {
  const Outcome boxes = Annotate("--annotate voc");
  EXPECT_EQ(boxes.code, 64);
  EXPECT_NE(boxes.err.find("--annotate voc does not fit the answers of task: CLASSIFY"), std::string::npos)
      << boxes.err;
  EXPECT_NE(boxes.err.find("for this model: folders"), std::string::npos) << boxes.err;
  const Outcome unknown = Annotate("--annotate folder");
  EXPECT_EQ(unknown.code, 64);
  EXPECT_NE(unknown.err.find("did you mean \"folders\"?"), std::string::npos) << unknown.err;
  const Outcome score = Annotate("--score 0.5");
  EXPECT_EQ(score.code, 64) << "it is of annotations";
  EXPECT_FALSE(fs::exists(folder_ / "annotations"));
}

TEST_F(AnnotateCliTest, ABadPictureIsLeftOutAndTold) {
  WriteFileAtomically(folder_ / "pictures/bad.png", "no picture");
  const Outcome made = Annotate("--annotate folders --out found");
  EXPECT_EQ(made.code, 65);
  EXPECT_NE(made.err.find("1 of 4 left out"), std::string::npos) << made.err;
  EXPECT_EQ(Split(ReadFile(folder_ / "found/uncertainty.csv"), '\n').size(), 5U);
}

}  // namespace
}  // namespace moka
