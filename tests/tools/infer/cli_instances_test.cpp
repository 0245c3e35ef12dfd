// moka infer for nets that cut out objects: boxes and masks in pixels of the picture, drawn on it. The net's regions
// are the four quarters of a canvas of 16x16 pixels; a quarter's score and mask are how bright it is.
#include <cmath>
#include <numeric>

#include "data/image/drawing.h"
#include "data/image/image.h"
#include "data/labels/run_lengths.h"
#include "data/records/lmdb_file.h"
#include "proto/moka.pb.h"
#include "proto/record.pb.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class InstancesCliTest : public CliTest {
 protected:
  void SetUp() override {
    fs::remove_all(folder_ / "pictures");
    fs::create_directories(folder_ / "pictures");
    // 12x16 pixels, which lie on the canvas as they are, and the same twice as large, which is shrunk.
    WriteFileAtomically(folder_ / "pictures/cell.png", EncodePng(Cell(1)));
    WriteFileAtomically(folder_ / "pictures/large.png", EncodePng(Cell(2)));
    fs::create_directories(folder_ / "cutter");
    WriteFileAtomically(folder_ / "cutter/deploy.prototxt", Net());
    WriteFileAtomically(folder_ / "cutter/model.prototxt", "name: \"cutter\" task: INSTANCES detection { score: 0.6 }");
    WriteFileAtomically(folder_ / "cutter/labels.txt", "none\nnucleus\n");
    WriteWeights();
  }

  // Its lower right quarter of four thirds of its width is a white cell; that quarter goes on beyond the picture.
  static Image Cell(int64_t scale) {
    Image picture;
    picture.Resize(12 * scale, 16 * scale, 1);
    std::ranges::fill(picture.pixels, uint8_t{0});
    for (int64_t y = 8 * scale; y < 16 * scale; ++y) {
      for (int64_t x = 8 * scale; x < 12 * scale; ++x) {
        picture.pixels[static_cast<size_t>(y * 12 * scale + x)] = 255;
      }
    }
    return picture;
  }

  static std::string Net() {
    return R"(
name: "cutter"
layer {
  name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 16 dim: 16 } }
  record_data_param { canvas_height: 16 canvas_width: 16 } transform_param { scale: 0.0039215686 }
}
layer {
  name: "score" type: "Convolution" bottom: "data" top: "score"
  convolution_param { num_output: 1 kernel_size: 8 stride: 8 bias_term: false }
}
layer {
  name: "delta" type: "Convolution" bottom: "data" top: "delta"
  convolution_param { num_output: 4 kernel_size: 8 stride: 8 }
}
layer {
  name: "proposals" type: "PyramidProposal" bottom: "data" bottom: "score" bottom: "delta" top: "rois"
  pyramid_param { stride: 8 size: 8 ratio: 1 post_nms: 6 }
}
layer {
  name: "pool" type: "PyramidRoiAlign" bottom: "rois" bottom: "data" top: "pool"
  pyramid_roi_align_param { pooled_h: 1 pooled_w: 1 stride: 1 }
}
layer { name: "class" type: "InnerProduct" bottom: "pool" top: "class" inner_product_param { num_output: 2 } }
layer { name: "code" type: "InnerProduct" bottom: "pool" top: "code" inner_product_param { num_output: 8 } }
layer { name: "prob" type: "Softmax" bottom: "class" top: "prob" }
layer {
  name: "detections" type: "RegionOutput" bottom: "data" bottom: "rois" bottom: "prob" bottom: "code" top: "detections"
  top: "mask_rois" top: "mask_classes" region_output_param { max_detections: 5 }
}
layer {
  name: "mask_pool" type: "PyramidRoiAlign" bottom: "mask_rois" bottom: "data" top: "mask_pool"
  pyramid_roi_align_param { pooled_h: 4 pooled_w: 4 stride: 1 }
}
layer {
  name: "mask_score" type: "Convolution" bottom: "mask_pool" top: "mask_score"
  convolution_param { num_output: 1 kernel_size: 1 }
}
layer { name: "own" type: "ClassMask" bottom: "mask_score" bottom: "mask_classes" top: "own" }
layer { name: "masks" type: "Sigmoid" bottom: "own" top: "masks" }
)";
  }

  static void AddBlob(LayerParameter& layer, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    BlobProto& blob = *layer.add_blobs();
    for (const int64_t dim : shape) blob.mutable_shape()->add_dim(dim);
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    for (int64_t i = 0; i < count; ++i) {
      blob.add_data(i < std::ssize(values) ? values[static_cast<size_t>(i)] : 0);
    }
  }

  // Anchors lie around the cells' corners and are moved by half a side; a quarter of which half is white has 0.88.
  static void WriteWeights() {
    NetParameter weights;
    const auto layer = [&](const char* name, const char* type) -> LayerParameter& {
      LayerParameter& added = *weights.add_layer();
      added.set_name(name);
      added.set_type(type);
      return added;
    };
    AddBlob(layer("score", "Convolution"), {1, 1, 8, 8}, {});
    LayerParameter& delta = layer("delta", "Convolution");
    AddBlob(delta, {4, 1, 8, 8}, {});
    AddBlob(delta, {4}, {0.5F, 0.5F});
    LayerParameter& classes = layer("class", "InnerProduct");
    AddBlob(classes, {2, 1}, {0, 8});
    AddBlob(classes, {2}, {0, -2});
    LayerParameter& code = layer("code", "InnerProduct");
    AddBlob(code, {8, 1}, {});
    AddBlob(code, {8}, {});
    LayerParameter& mask = layer("mask_score", "Convolution");
    AddBlob(mask, {1, 1, 1, 1}, {20});
    AddBlob(mask, {1}, {-8});
    WriteFileAtomically(folder_ / "cutter/net.caffemodel", weights.SerializeAsString());
  }

  static Outcome Infer(const std::string& arguments) {
    return Moka("infer cutter --weights cutter/net.caffemodel " + arguments);
  }

  static std::vector<int> PixelOf(const Image& image, int64_t x, int64_t y) {
    const auto at = static_cast<size_t>((y * image.width + x) * 3);
    return {image.pixels[at], image.pixels[at + 1], image.pixels[at + 2]};
  }

  static Image Drawn(const std::string& file) {
    Image image;
    ImageDecoder().Decode(ReadFile(folder_ / file), {}, image);
    return image;
  }
};

TEST_F(InstancesCliTest, AnnotationsAreImportedAsTheSameMasks) {
  const Outcome made = Infer("pictures --annotate coco --out marked --json");
  ASSERT_EQ(made.code, 0) << made.err;
  const Json pictures = Json::parse(made.out);
  ASSERT_EQ(pictures.size(), 2U);
  ASSERT_EQ(Moka("data import coco:marked/instances.json,marked/images marks").code, 0);
  const LmdbReader reader(folder_ / "marks");
  ASSERT_EQ(reader.size(), 2);
  for (int64_t i = 0; i < 2; ++i) {
    SampleRecord record;
    ASSERT_TRUE(record.ParseFromString(std::string(reader.value(i))));
    const Json& objects = pictures[static_cast<size_t>(i)].at("instances");
    ASSERT_EQ(record.box_size(), std::ssize(objects));
    for (int k = 0; k < record.box_size(); ++k) {
      const RunLengths expected = objects[static_cast<size_t>(k)].at("segmentation").at("counts");
      EXPECT_EQ(RunLengths(record.box(k).run().begin(), record.box(k).run().end()), expected);
      EXPECT_EQ(record.box(k).label(), 1);
    }
  }
  EXPECT_EQ(Infer("pictures --annotate yolo").code, 64) << "it would lose the masks";
}

TEST_F(InstancesCliTest, BoxesAndMasksAreInPixelsOfThePicture) {
  const Outcome outcome = Infer("pictures/cell.png --json --out cut");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json picture = Json::parse(outcome.out)[0];
  EXPECT_EQ(picture.at("file"), "pictures/cell.png");
  EXPECT_EQ(picture.at("width"), 12);
  EXPECT_EQ(picture.at("height"), 16);
  EXPECT_EQ(picture.at("picture"), "cut/cell_instances.png");
  ASSERT_EQ(picture.at("instances").size(), 1U) << outcome.out;
  const Json found = picture.at("instances")[0];
  EXPECT_EQ(found.at("label"), "nucleus");
  EXPECT_EQ(found.at("index"), 1);
  EXPECT_NEAR(found.at("score").get<double>(), 1 / (1 + std::exp(-2.0)), 1e-5);
  // The box is cut to the picture; the mask lies in the whole one.
  const std::vector<double> expected = {8, 8, 12, 16};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found.at("box")[i].get<double>(), expected[i], 1e-4) << i;
  EXPECT_EQ(found.at("segmentation").at("size"), Json({16, 12}));
  // Eight columns and half a column of none, then four half columns.
  EXPECT_EQ(found.at("segmentation").at("counts"), Json({136, 8, 8, 8, 8, 8, 8, 8}));
}

TEST_F(InstancesCliTest, LargePicturesAreShrunkToTheCanvas) {
  const Outcome outcome = Infer("pictures --json --batch 2");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json pictures = Json::parse(outcome.out);
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures[0].at("instances")[0].at("segmentation").at("counts"), Json({136, 8, 8, 8, 8, 8, 8, 8}));
  ASSERT_EQ(pictures[1].at("instances").size(), 1U);
  const Json found = pictures[1].at("instances")[0];
  const std::vector<double> expected = {16, 16, 24, 32};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found.at("box")[i].get<double>(), expected[i], 1e-3) << i;
  const std::vector<uint32_t> runs = found.at("segmentation").at("counts");
  const Image mask = MaskOf(runs, 24, 32);
  const Image cell = Cell(2);
  int64_t common = 0;
  int64_t either = 0;
  for (size_t i = 0; i < mask.pixels.size(); ++i) {
    common += mask.pixels[i] != 0 && cell.pixels[i] != 0 ? 1 : 0;
    either += mask.pixels[i] != 0 || cell.pixels[i] != 0 ? 1 : 0;
  }
  EXPECT_GT(static_cast<double>(common) / static_cast<double>(either), 0.9) << common << " of " << either;
}

TEST_F(InstancesCliTest, MasksAndBoxesAreDrawn) {
  const Outcome outcome = Infer("pictures/cell.png --zoom 4");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "pictures/cell.png -> instances/cell_instances.png: 1 object\n  0.8808 - \"nucleus\" 8,8 to 12,16\n");
  const Image drawn = Drawn("instances/cell_instances.png");
  ASSERT_EQ(drawn.width, 48);
  ASSERT_EQ(drawn.height, 64);
  const Color color = ColorOf(0);
  EXPECT_EQ(PixelOf(drawn, 32, 50), (std::vector<int>{color.blue, color.green, color.red})) << "the left border";
  const std::vector<int> inside = PixelOf(drawn, 40, 50);
  const std::vector<int> colors = {color.blue, color.green, color.red};
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(inside[c], 0.55 * 255 + 0.45 * colors[c], 1.5) << c;
  EXPECT_EQ(PixelOf(drawn, 10, 10), (std::vector<int>{0, 0, 0})) << "beside it";
}

TEST_F(InstancesCliTest, TheScoreDecidesWhatIsShown) {
  const Outcome all = Infer("pictures/cell.png --score 0.1 --json");
  ASSERT_EQ(all.code, 0) << all.err;
  // The upper right quarter lies half, the lower left one wholly on the picture; all three are dark.
  EXPECT_EQ(Json::parse(all.out)[0].at("instances").size(), 4U) << all.out;
  const Outcome none = Infer("pictures/cell.png --score 0.9");
  EXPECT_EQ(none.out, "pictures/cell.png -> instances/cell_instances.png: 0 objects\n") << none.err;
}

TEST_F(InstancesCliTest, MistakesAreSaid) {
  EXPECT_EQ(Infer("").code, 64);
  const Outcome zoom = Infer("pictures --zoom 0");
  EXPECT_EQ(zoom.code, 64);
  EXPECT_NE(zoom.err.find("--zoom"), std::string::npos) << zoom.err;
  const Outcome missing = Infer("pictures/none.png");
  EXPECT_EQ(missing.code, 66) << missing.err;
  EXPECT_NE(missing.err.find("pictures/none.png"), std::string::npos) << missing.err;
  const std::string net = Net();
  WriteFileAtomically(folder_ / "cutter/deploy.prototxt", net.substr(0, net.find("layer {\n  name: \"mask_pool\"")));
  const Outcome outcome = Infer("pictures");
  EXPECT_EQ(outcome.code, 78);
  EXPECT_NE(outcome.err.find("the net's outputs are not rows [1,1,R,7] of boxes and their masks [R,1,S,S]"),
            std::string::npos)
      << outcome.err;
}

TEST_F(InstancesCliTest, ACanvasTakesNoPadding) {
  std::string net = Net();
  net.replace(net.find("transform_param {"), 17, "transform_param { pad: 2 ");
  WriteFileAtomically(folder_ / "cutter/deploy.prototxt", net);
  const Outcome outcome = Infer("pictures");
  EXPECT_EQ(outcome.code, 78);
  EXPECT_NE(outcome.err.find("Input does not read transform_param.pad"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace moka
