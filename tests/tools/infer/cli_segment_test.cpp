// moka infer for segmenting nets: class maps of pictures of any size, resized or in tiles, overlays and shares. The net
// is one convolution that gives each colour a class.
#include "data/image/image.h"
#include "data/records/lmdb_file.h"
#include "proto/moka.pb.h"
#include "proto/record.pb.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class SegmentCliTest : public CliTest {
 protected:
  void SetUp() override {
    for (const int kernel : {1, 3}) WriteNet(kernel);
    // Columns of blue, green and red, the last row green.
    picture_.Resize(23, 14, 3);
    for (int64_t i = 0; i < 23 * 14; ++i) picture_.pixels[static_cast<size_t>(i * 3 + ClassAt(i % 23, i / 23))] = 200;
    fs::create_directories(folder_ / "pictures");
    WriteFileAtomically(folder_ / "pictures/colours.png", EncodePng(picture_));
  }

  static int64_t ClassAt(int64_t x, int64_t y) { return y == 13 ? 1 : x < 8 ? 0 : x < 16 ? 1 : 2; }

  // A model's folder "net1" or "net3", whose kernel has its centre only; the larger one leaves a pixel out at each
  // side.
  static void WriteNet(int kernel) {
    const std::string name = StrCat("net", kernel);
    fs::create_directories(folder_ / name);
    const auto write = [&](const char* file, const std::string& text) {
      WriteFileAtomically(folder_ / name / file, text);
    };
    write(
        "deploy.prototxt",
        StrCat(
            "name: \"n\" layer { name: \"data\" type: \"Input\" top: \"data\" input_param { shape { dim: 1 dim: 3 dim: "
            "8 dim: 10 } } }\nlayer { name: \"score\" type: \"Convolution\" bottom: \"data\" top: \"score\" "
            "convolution_param { num_output: 3 bias_term: false kernel_size: ",
            kernel, " } }\n"));
    write("model.prototxt", StrCat("name: \"n\" task: SEGMENT segmentation { margin: ", kernel / 2, " }"));
    write("labels.txt", "blue\ngreen\nred\n");
    NetParameter weights;
    LayerParameter& layer = *weights.add_layer();
    layer.set_name("score");
    layer.set_type("Convolution");
    BlobProto& blob = *layer.add_blobs();
    for (const int dim : {3, 3, kernel, kernel}) blob.mutable_shape()->add_dim(dim);
    const int area = kernel * kernel;
    for (int i = 0; i < 9 * area; ++i) blob.add_data(i % area == area / 2 && i / area % 4 == 0 ? 1 : 0);
    write("net.caffemodel", weights.SerializeAsString());
  }

  static Image MapIn(const std::string& file) {
    Image map;
    ImageDecoder().Decode(ReadFile(folder_ / file), {}, map);
    return map;
  }

  void ExpectExactMap(const std::string& file) const {
    const Image map = MapIn(file);
    ASSERT_EQ(map.width, 23);
    ASSERT_EQ(map.height, 14);
    ASSERT_EQ(map.channels, 1);
    for (int64_t i = 0; i < 23 * 14; ++i) {
      ASSERT_EQ(map.pixels[static_cast<size_t>(i)], ClassAt(i % 23, i / 23)) << i % 23 << "," << i / 23;
    }
  }

  static std::string Infer(int kernel) {
    return StrCat("infer net", kernel, " --weights net", kernel, "/net.caffemodel pictures ");
  }

  Image picture_;
};

TEST_F(SegmentCliTest, TilesGiveEveryPixelItsClass) {
  const Outcome tiled = Moka(Infer(1) + "--tile --overlap 2 --batch 3 --out tiled --json");
  ASSERT_EQ(tiled.code, 0) << tiled.err;
  const Json picture = Json::parse(tiled.out)[0];
  EXPECT_EQ(picture.at("file"), "pictures/colours.png");
  EXPECT_EQ(picture.at("width"), 23);
  EXPECT_EQ(picture.at("height"), 14);
  EXPECT_EQ(picture.at("overlay"), "tiled/colours_overlay.png");
  const Json& first = picture.at("classes")[0];
  EXPECT_EQ(first.at("label"), "green");
  EXPECT_EQ(first.at("index"), 1);
  EXPECT_NEAR(first.at("share").get<double>(), (8.0 * 13 + 23) / (23 * 14), 1e-9);
  EXPECT_EQ(picture.at("classes").size(), 3U);
  ExpectExactMap(picture.at("class_map").get<std::string>());
  const Image overlay = MapIn("tiled/colours_overlay.png");
  EXPECT_EQ(overlay.channels, 3);
  EXPECT_GT(overlay.width, 23 + 40) << "the legend stands beside the picture";
  EXPECT_NE(overlay.pixels[0], picture_.pixels[0]) << "half of the picture, half of the class's colour";
}

TEST_F(SegmentCliTest, AnnotationsAreImportedAsTheSameClasses) {
  const Outcome made = Moka(Infer(1) + "--tile --annotate folders --out marked --json");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(Json::parse(made.out)[0].at("annotation"), "marked/masks/colours.png");
  ExpectExactMap("marked/masks/colours.png");
  const double uncertainty = Json::parse(made.out)[0].at("uncertainty");
  EXPECT_NEAR(uncertainty, 0, 1e-9) << "scores of 200 and 0 leave no doubt";
  ASSERT_EQ(Moka("data import masks:marked/images,marked/masks,,marked/classes.txt marks").code, 0);
  const LmdbReader reader(folder_ / "marks");
  ASSERT_EQ(reader.size(), 1);
  SampleRecord record;
  ASSERT_TRUE(record.ParseFromString(std::string(reader.value(0))));
  WriteFileAtomically(folder_ / "imported.png", record.mask());
  ExpectExactMap("imported.png");
  EXPECT_NE(ReadFile(folder_ / "marks/schema.prototxt").find("mask_class: \"green\""), std::string::npos);
}

TEST_F(SegmentCliTest, NetsThatLeaveOutAMarginTakeTilesAlways) {
  const Outcome tiled = Moka(Infer(3) + "--out margin");
  ASSERT_EQ(tiled.code, 0) << tiled.err;
  EXPECT_NE(tiled.out.find("pictures/colours.png -> margin/colours_overlay.png\n   39.4 %  green\n"), std::string::npos)
      << tiled.out;
  ExpectExactMap("margin/colours_classes.png");
}

TEST_F(SegmentCliTest, PicturesAreResizedToTheInputAndTheirMapBack) {
  const Outcome whole = Moka(Infer(1));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const Image map = MapIn("segments/colours_classes.png");
  ASSERT_EQ(map.width, 23);
  ASSERT_EQ(map.height, 14);
  for (const auto& [x, label] : {std::pair<size_t, int>(2, 0), {11, 1}, {20, 2}})
    EXPECT_EQ(map.pixels[5 * 23 + x], label);
}

TEST_F(SegmentCliTest, MistakesAreNamed) {
  const auto error = [](const std::string& arguments, int code) {
    const Outcome outcome = Moka(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(error(Infer(1) + "--overlap 2", 64).find("--overlap is of tiles"), std::string::npos);
  EXPECT_NE(error(Infer(1) + "--tile --overlap 4", 78).find("leave nothing of an input of 8x10"), std::string::npos);
  EXPECT_NE(error("infer net1 --weights net1/net.caffemodel", 64).find("at least one picture"), std::string::npos);
}

}  // namespace
}  // namespace moka
