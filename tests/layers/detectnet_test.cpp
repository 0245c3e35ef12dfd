// DetectNet: shapes and mistakes of its layers, and what random changes of images and boxes promise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/text.h"
#include "layers/forks/detectnet/ops/rectangle_groups.h"
#include "one_layer.h"
#include "proto/weights/weights.h"

namespace moka {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kTops = {"x", "t"};

std::vector<NamedInput> Inputs(int64_t images = 1, int64_t objects = 2) {
  return {{"data", {images, 3, 16, 24}}, {"label", {images, 1, objects + 1, 16}}};
}

std::string Transformation(const std::string& ground, const std::string& augmentation = "",
                           const std::string& more = "") {
  return "type: \"DetectNetTransformation\" detectnet_groundtruth_param { stride: 8 image_size_x: 32 image_size_y: "
         "24 " +
         ground + "} detectnet_augmentation_param { " + augmentation + "} " + more;
}

const std::string kNothingRandom =
    "crop_prob: 0 scale_prob: 0 flip_prob: 0 rotation_prob: 0 hue_rotation_prob: 0 desaturation_prob: 0 ";

std::string PythonLayerText(const std::string& module, const std::string& layer, const std::string& param = "") {
  return "type: \"Python\" python_param { module: \"caffe.layers.detectnet." + module + "\" layer: \"" + layer +
         "\" param_str: \"" + param + "\" }";
}

// One box of class 1 in each of `images` images: x 4, y 2, 10 wide, 6 high.
std::vector<double> OneBoxEach(size_t images) {
  std::vector<double> label(images * 48, 0.0);
  for (size_t n = 0; n < images; ++n) {
    double* const row = label.data() + n * 48;
    row[0] = 1;
    row[1] = 16;
    row[16] = 4;
    row[17] = 2;
    row[18] = 10;
    row[19] = 6;
    row[21] = 1;
  }
  return label;
}

TEST(DetectNetTest, Shapes) {
  for (const Phase phase : {TRAIN, TEST}) {
    EXPECT_THAT(ShapesOf(Inputs(2), kTops, Transformation(""), phase),
                ElementsAre(Shape{2, 3, 24, 32}, Shape{2, 9, 3, 4}));
    EXPECT_THAT(ShapesOf(Inputs(), kTops, Transformation("object_class { src: 8 dst: 3 }"), phase),
                ElementsAre(Shape{1, 3, 24, 32}, Shape{1, 12, 3, 4}));
  }
  // 24 / 16 cells are two, 40 / 16 as well: halves go to even numbers.
  EXPECT_THAT(ShapesOf(Inputs(), kTops,
                       "type: \"DetectNetTransformation\" detectnet_groundtruth_param { stride: 16 image_size_x: 40 "
                       "image_size_y: 24 }"),
              ElementsAre(Shape{1, 3, 24, 40}, Shape{1, 9, 2, 2}));
}

TEST(DetectNetTest, TransformationMistakes) {
  EXPECT_THAT(OneLayerErrors({{"data", {1, 1, 16, 24}}, Inputs()[1]}, kTops, Transformation("")),
              HasSubstr("bottom \"data\" must be images [N,3,H,W], found [1,1,16,24]"));
  EXPECT_THAT(OneLayerErrors({Inputs()[0], {"label", {1, 1, 3, 5}}}, kTops, Transformation("")),
              HasSubstr("bottom \"label\" must be [1,1,objects+1,16]"));
  EXPECT_THAT(OneLayerErrors({Inputs()[0], {"label", {2, 1, 3, 16}}}, kTops, Transformation("")),
              HasSubstr("bottom \"label\" must be [1,1,objects+1,16]"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, Transformation("object_class { src: 1 }")),
              HasSubstr("object_class must have both src and dst"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, Transformation("object_class { src: 1 dst: 4000000000 }")),
              HasSubstr("there must be 1 to 65536 classes, found 4000000001"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, Transformation("", "scale_min: 0 ")),
              HasSubstr("scale_min 0 makes a height of 0 pixels"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, Transformation("", "scale_max: 1e30 ")), HasSubstr("1 to 32768 fit"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, Transformation("", "hue_rotation: nan ")),
              HasSubstr("detectnet_augmentation_param.hue_rotation"));
  EXPECT_THAT(
      OneLayerErrors(Inputs(), kTops, Transformation("", "", "transform_param { mean_value: 1 mean_value: 2 }")),
      HasSubstr("mean_value must be given once or three times, found 2"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, Transformation("", "", "transform_param { mean_file: \"none.mean\" }")),
              HasSubstr("none.mean"));
  const std::string sizes = "type: \"DetectNetTransformation\" detectnet_groundtruth_param { ";
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, sizes + "image_size_x: 0 }"),
              HasSubstr("image_size_x and image_size_y must be at least 1, found 0 and 384"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, sizes + "stride: 0 }", TEST), HasSubstr("stride must be at least 1"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, sizes + "stride: 5000 }", TEST), HasSubstr("has no cell of 5000"));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, sizes + "image_size_x: 40000 }"), HasSubstr("out_width must lie in"));
}

TEST(DetectNetTest, AMeanFileIsResized) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "detectnet_mean.binaryproto";
  std::vector<float> mean(3 * 8 * 12);
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(10 * (1 + i / 96));
  WriteBlobProtoFile(path, {1, 3, 8, 12}, mean);
  const std::string fields =
      "type: \"DetectNetTransformation\" detectnet_groundtruth_param { image_size_x: 24 image_size_y: 16 } "
      "transform_param { mean_file: \"" +
      path.string() + "\" mean_value: 5 }";
  const BuiltNet net = BuildText(OneLayer(Inputs(), kTops, fields), TEST);
  const std::vector<double> image = TopValues(net, {{"data", std::vector<double>(1152, 100.0)}}, "x");
  for (size_t i = 0; i < image.size(); ++i) ASSERT_NEAR(image[i], 90 - 10 * static_cast<double>(i / 384), 1e-9) << i;
  WriteBlobProtoFile(path, {1, 1, 8, 12}, std::span(mean).first(96));
  EXPECT_THAT(OneLayerErrors(Inputs(), kTops, fields), HasSubstr("must hold an image of 3 channels, found [1,1,8,12]"));
  std::filesystem::remove(path);
}

// Boxes that a label counts beyond its rows, and those without area or of strange numbers, are left out.
TEST(DetectNetTest, StrangeLabelsGiveNoBoxes) {
  const BuiltNet net = BuildText(OneLayer(Inputs(), kTops, Transformation("crop_bboxes: false ")), TEST);
  for (const double strange : std::vector<double>{NAN, INFINITY, -INFINITY, 1e300, -1e300}) {
    std::vector<double> label = OneBoxEach(1);
    label[0] = 1e300;  // boxes
    std::fill(label.begin() + 32, label.begin() + 36, strange);
    label[37] = 1;
    const std::vector<double> grid = TopValues(net, {{"label", label}}, "t");
    EXPECT_GT(std::count(grid.begin(), grid.begin() + 12, 1.0), 0);
    EXPECT_TRUE(std::ranges::all_of(grid, [](double v) { return std::isfinite(v); })) << strange;
    label[0] = strange;
    label[21] = strange;
    EXPECT_THAT(TopValues(net, {{"label", label}}, "t"), Each(0.0)) << strange;
  }
}

TEST(DetectNetTest, RandomChangesRepeatWithTheirKey) {
  const BuiltNet net = BuildText(OneLayer(Inputs(4), kTops,
                                          Transformation("crop_bboxes: false ",
                                                         "shift_x: 8 shift_y: 8 flip_prob: 0.5 "
                                                         "rotation_prob: 1 scale_prob: 1 ")));
  std::vector<double> image(4 * 1152);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<double>(i % 251);
  std::vector<double> first;
  std::set<std::vector<double>> pictures;
  for (const double key : {1.0, 2.0, 1.0}) {
    const Feeds feeds = {{"data", image}, {"label", OneBoxEach(4)}, {"random_key", {key}}};
    const std::vector<double> changed = TopValues(net, feeds, "x");
    if (first.empty()) first = changed;
    EXPECT_EQ(first == changed, key == 1);
    for (int n = 0; n < 4; ++n) pictures.emplace(changed.begin() + n * 2304, changed.begin() + (n + 1) * 2304);
  }
  EXPECT_EQ(pictures.size(), 8U);  // no two images change alike
}

// A white box in a black image stays under its label: where a cell lies in the box as the grid has it, its pixel is
// white, and around the box it is black.
TEST(DetectNetTest, BoxesMoveWithTheirPixels) {
  const BuiltNet net = BuildText(
      OneLayer({{"data", {40, 3, 40, 40}}, {"label", {40, 1, 3, 16}}}, kTops,
               "type: \"DetectNetTransformation\" detectnet_groundtruth_param { stride: 1 scale_cvg: 1 max_cvg_len: "
               "100 image_size_x: 36 image_size_y: 36 crop_bboxes: false } detectnet_augmentation_param { flip_prob: "
               "0.5 scale_prob: 1 scale_min: 0.8 scale_max: 1.5 rotation_prob: 0.5 max_rotate_degree: 1 }"));
  std::vector<double> image(40 * 4800);
  for (size_t i = 0; i < image.size(); ++i) {
    const size_t x = i % 40;
    const size_t y = i / 40 % 40;
    image[i] = x >= 12 && x < 30 && y >= 8 && y < 22 ? 255 : 0;
  }
  std::vector<double> label = OneBoxEach(40);
  for (size_t n = 0; n < 40; ++n) {
    const std::vector<double> box = {12, 8, 18, 14};
    std::ranges::copy(box, label.begin() + static_cast<std::ptrdiff_t>(n * 48 + 16));
  }
  const Feeds feeds = {{"data", image}, {"label", label}, {"random_key", {3}}};
  const std::vector<double> pixels = TopValues(net, feeds, "x");
  const std::vector<double> grid = TopValues(net, feeds, "t");
  constexpr double kEdge = 2.5;  // mirrored boxes lie a pixel off, as in the original
  size_t inside = 0;
  for (size_t n = 0; n < 40; ++n) {
    for (size_t i = 0; i < 1296; ++i) {
      const auto cell = [&](size_t c) { return grid[(n * 9 + c) * 1296 + i]; };
      if (cell(0) == 0) continue;
      const double pixel = pixels[n * 3888 + i];
      if (std::min({-cell(1), -cell(2), cell(3), cell(4)}) < kEdge) continue;
      EXPECT_GT(pixel, 200) << "image " << n << " cell " << i;
      ++inside;
    }
  }
  EXPECT_GT(inside, 2000U);
}

TEST(DetectNetTest, PythonLayersShapes) {
  const std::vector<NamedInput> maps = {{"c", {2, 3, 6, 10}}, {"b", {2, 4, 6, 10}}};
  EXPECT_THAT(ShapesOf(maps, {"a", "b2", "c2"},
                       PythonLayerText("clustering", "ClusterDetections", "80, 48, 8, 0.06, 3, 0.02, 10, 3")),
              Each(Shape{2, 50, 5}));
  EXPECT_THAT(ShapesOf(maps, {"a", "b2", "c2"}, PythonLayerText("clustering", "ClusterGroundtruth", "80,48,8,3")),
              Each(Shape{2, 50, 5}));
  const std::vector<NamedInput> lists = {{"a", {2, 50, 5}}, {"b", {2, 50, 5}}};
  EXPECT_THAT(ShapesOf(lists, {"y"}, PythonLayerText("mean_ap", "ScoreDetections")), ElementsAre(Shape{2, 50, 5}));
  EXPECT_THAT(ShapesOf({lists[0]}, {"m", "p", "r"}, PythonLayerText("mean_ap", "mAP", "80, 48, 8")), Each(Shape{1}));
}

TEST(DetectNetTest, PythonLayersMistakes) {
  const std::vector<NamedInput> maps = {{"c", {2, 1, 6, 10}}, {"b", {2, 4, 6, 10}}};
  const auto detections = [&](const std::string& param) {
    return OneLayerErrors(maps, {"y"}, PythonLayerText("clustering", "ClusterDetections", param));
  };
  EXPECT_THAT(detections(""), HasSubstr("number 1 must be a whole number, the image's width, found none"));
  EXPECT_THAT(detections("80, 48"), HasSubstr("number 3 must be a whole number, the stride, found none"));
  EXPECT_THAT(detections("80, 48.0, 8"), HasSubstr("the image's height, found \"48.0\""));
  EXPECT_THAT(detections("80, 48, 0"), HasSubstr("number 3, the stride, must be at least 1, found 0"));
  EXPECT_THAT(detections("80, 48, 8, x, 3, 0.02, 10"), HasSubstr("number 4 must be a number, the least coverage"));
  EXPECT_THAT(detections("80, 48, 8, 0.6, -1, 0.02, 10"), HasSubstr("number 5, the cells that are too few"));
  EXPECT_THAT(detections("80, 48, 8, 0.6, 3, 0.02, 10, 2"), HasSubstr("a top for each of 2 classes, found 1"));
  EXPECT_THAT(detections("7, 48, 8, 0.6, 3, 0.02, 10"), HasSubstr("has no cell of 8"));
  EXPECT_THAT(OneLayerErrors({{"c", {2, 2, 6, 10}}, maps[1]}, {"y"},
                             PythonLayerText("clustering", "ClusterGroundtruth", "80, 48, 8")),
              HasSubstr("bottom \"c\" must have the coverage of 1 classes, [N,1,H,W], found [2,2,6,10]"));
  EXPECT_THAT(OneLayerErrors({maps[0], {"b", {2, 4, 5, 10}}}, {"y"},
                             PythonLayerText("clustering", "ClusterGroundtruth", "80, 48, 8")),
              HasSubstr("a box for each of the 6 x 10 cells"));
  EXPECT_THAT(
      OneLayerErrors({{"a", {2, 50, 5}}, {"b", {3, 50, 5}}}, {"y"}, PythonLayerText("mean_ap", "ScoreDetections")),
      HasSubstr("must be [N,boxes,5] of one N"));
  EXPECT_THAT(OneLayerErrors({{"a", {2, 50, 4}}}, {"m", "p", "r"}, PythonLayerText("mean_ap", "mAP")),
              HasSubstr("bottom \"a\" must be scored boxes"));
  EXPECT_THAT(OneLayerErrors({{"a", {2, 50, 5}}}, {"m"}, PythonLayerText("mean_ap", "mAP")),
              HasSubstr("takes 3 tops, found 1"));
}

// More boxes than there are rows, and numbers that are none.
TEST(DetectNetTest, FiftyBoxesAtMost) {
  const std::vector<NamedInput> maps = {{"c", {1, 1, 6, 10}}, {"b", {1, 4, 6, 10}}};
  const Feeds feeds = {{"c", std::vector<double>(60, 1.0)}, {"b", std::vector<double>(240, 1.0)}};
  for (const std::string& layer : {PythonLayerText("clustering", "ClusterDetections", "80, 48, 8, 0.6, 0, 0.02, 0"),
                                   PythonLayerText("clustering", "ClusterGroundtruth", "80, 48, 8")}) {
    const BuiltNet net = BuildText(OneLayer(maps, {"y"}, layer), TEST);
    const std::vector<double> boxes = TopValues(net, feeds, "y");
    EXPECT_EQ(boxes[49 * 5], 9 * 8 + 1);  // of the fiftieth cell
    const Feeds strange = {{"c", std::vector<double>(60, 1.0)}, {"b", std::vector<double>(240, NAN)}};
    EXPECT_EQ(TopValues(net, strange, "y").size(), 250U);
  }
}

TEST(DetectNetTest, RectangleGroups) {
  using Rectangles = std::vector<std::array<int64_t, 4>>;
  // A chain: the first and the third are not alike, but both are like the second.
  const Rectangles chain = {{0, 0, 100, 100}, {8, 0, 100, 100}, {16, 0, 100, 100}, {200, 0, 10, 10}};
  const auto groups = GroupedRectangles(chain, 1, 0.1);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_THAT(groups[0].rectangle, ElementsAre(8, 0, 100, 100));
  EXPECT_EQ(groups[0].count, 3);
  EXPECT_TRUE(GroupedRectangles(chain, 3, 0.1).empty());
  EXPECT_EQ(GroupedRectangles(chain, 0, 0.1).size(), 4U);
  EXPECT_TRUE(GroupedRectangles({}, 1, 0.1).empty());
  // Two small ones inside four that are large.
  const Rectangles nested = {{20, 20, 9, 9}, {20, 20, 9, 9}, {0, 0, 90, 90},
                             {0, 0, 90, 90}, {0, 0, 90, 90}, {0, 0, 90, 90}};
  ASSERT_EQ(GroupedRectangles(nested, 1, 0.1).size(), 1U);
  EXPECT_EQ(GroupedRectangles(nested, 1, 0.1)[0].count, 4);
}

}  // namespace
}  // namespace moka
