// RecordData's canvas: pictures of many sizes keep their pixels, larger ones are shrunk, and boxes, masks, instances
// and points lie where the canvas shows them.
#include "tests/data/record_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Layers : public RecordLayers {
 protected:
  static constexpr const char* kCanvas = "canvas_height: 16 canvas_width: 20 ";

  std::vector<std::vector<float>> Shown(const std::string& transform, const std::string& record, Phase phase = TEST) {
    const auto pipeline =
        Open("RecordData", Fields({"PICTURE", "BOXES", "MASK", "INSTANCES", "POINTS"}, transform, 1, record), phase);
    EXPECT_EQ(pipeline->types()[0].shape[1], 3);
    return Next(*pipeline);
  }

  // The rectangle's pixels are white, class 2 and instance 2; the rest of the picture [height, width] is black and
  // class 0, and beyond it pixels are 0 and of no class. All on a canvas `canvas` pixels wide.
  static void ExpectRectangle(const std::vector<std::vector<float>>& tops, const ImageWindow& picture,
                              const ImageWindow& rectangle, int64_t canvas, float blend = 0) {
    const auto is_in = [](const ImageWindow& w, int64_t x, int64_t y) {
      return x >= w.x && y >= w.y && x < w.x + w.width && y < w.y + w.height;
    };
    for (int64_t i = 0; i < std::ssize(tops[2]); ++i) {
      const int64_t x = i % canvas;
      const int64_t y = i / canvas;
      const auto at = static_cast<size_t>(i);
      const bool is_white = is_in(rectangle, x, y);
      EXPECT_NEAR(tops[0][at], is_white ? 255 : 0, blend) << x << ", " << y;
      EXPECT_EQ(tops[2][at], is_white ? 2 : is_in(picture, x, y) ? 0 : 255) << x << ", " << y;
      EXPECT_EQ(tops[3][at], is_white ? 2 : 0) << x << ", " << y;
    }
  }
};

TEST_F(Layers, PicturesLieAtTheUpperLeftAsTheyAre) {
  WriteRecords({RecordOf(10, 12, {2, 3, 6, 4})});
  const auto tops = Shown("", kCanvas);
  ASSERT_EQ(tops[0].size(), 3U * 16 * 20);
  ExpectRectangle(tops, {0, 0, 12, 10}, {2, 3, 6, 4}, 20);
  // Corners are parts of the canvas: the first box was an eighth of the picture.
  EXPECT_THAT(tops[1], testing::Pointwise(testing::FloatNear(1e-6F),
                                          std::vector<float>{0, 1, 1, 0, 0, 1.5F / 20, 1.25F / 16, 1,  //
                                                             0, 2, 2, 2.0F / 20, 3.0F / 16, 8.0F / 20, 7.0F / 16, 0}));
  EXPECT_NEAR(tops[4][0], 5.0 / 20, 1e-6);
  EXPECT_NEAR(tops[4][1], 5.0 / 16, 1e-6);
}

TEST_F(Layers, MirroredOnesTooLieAtTheLeft) {
  WriteRecords({RecordOf(10, 12, {2, 3, 6, 4})});
  const auto pipeline =
      Open("RecordData",
           Fields({"PICTURE", "BOXES", "MASK", "INSTANCES", "POINTS"}, "transform_param { mirror: true }", 1, kCanvas),
           TRAIN);
  int mirrored = 0;
  constexpr int kEpochs = 12;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto tops = Next(*pipeline);
    const bool is_mirrored = tops[0][3 * 20 + 9] == 255;  // column 9 is white in a mirrored one alone
    mirrored += is_mirrored ? 1 : 0;
    const int64_t left = is_mirrored ? 4 : 2;
    ExpectRectangle(tops, {0, 0, 12, 10}, {left, 3, 6, 4}, 20);
    EXPECT_NEAR(tops[1][8 + 3], static_cast<double>(left) / 20, 1e-6);
    EXPECT_NEAR(tops[1][8 + 5], static_cast<double>(left + 6) / 20, 1e-6);
    EXPECT_NEAR(tops[1][3], is_mirrored ? 10.5 / 20 : 0, 1e-6) << "a box without a mask";
    EXPECT_NEAR(tops[4][0], static_cast<double>(left + 3) / 20, 1e-6);
  }
  EXPECT_GT(mirrored, 0);
  EXPECT_LT(mirrored, kEpochs);
}

TEST_F(Layers, LargerOnesAreShrunkToFit) {
  WriteRecords({RecordOf(32, 24, {8, 16, 8, 8})});
  const auto tops = Shown("", kCanvas);
  ExpectRectangle(tops, {0, 0, 12, 16}, {4, 8, 4, 4}, 20, 80);
  EXPECT_THAT(std::vector(tops[1].begin() + 8, tops[1].end()),
              testing::Pointwise(testing::FloatNear(1e-6F), std::vector<float>{0, 2, 2, 0.2F, 0.5F, 0.4F, 0.75F, 0}));
}

TEST_F(Layers, TheShorterSideMayBeSetBefore) {
  WriteRecords({RecordOf(5, 6, {2, 1, 2, 2})});
  const auto tops = Shown("transform_param { resize_short: 10 }", kCanvas);
  // Enlarged borders are blends; instances and masks are not.
  for (int64_t i = 0; i < std::ssize(tops[3]); ++i) {
    const int64_t x = i % 20;
    const int64_t y = i / 20;
    const bool is_inside = x >= 4 && x < 8 && y >= 2 && y < 6;
    EXPECT_EQ(tops[3][static_cast<size_t>(i)], is_inside ? 2 : 0) << x << ", " << y;
    EXPECT_EQ(tops[2][static_cast<size_t>(i)], is_inside ? 2 : x < 12 && y < 10 ? 0 : 255) << x << ", " << y;
  }
}

TEST_F(Layers, BatchesMayMixSizes) {
  WriteRecords({RecordOf(10, 12, {2, 3, 6, 4}), RecordOf(16, 20, {0, 0, 20, 16})});
  const auto pipeline = Open("RecordData", Fields({"PICTURE", "INSTANCES"}, "", 2, kCanvas));
  EXPECT_EQ(pipeline->types()[1].shape, (Shape{2, 1, 16, 20}));
  const auto tops = Next(*pipeline);
  EXPECT_EQ(std::ranges::count(tops[1], 2), 6 * 4 + 16 * 20);
}

TEST_F(Layers, MeansMustFitTheChannelsOfEveryRecord) {
  WriteRecords({PictureRecord(Picture(10, 12, 3, 1)), PictureRecord(Picture(10, 12, 1, 1))}, "version: 1");
  const auto error = [&](const std::string& transform) {
    return OpenError("RecordData", Fields({"PICTURE"}, "transform_param { " + transform + " }", 2, kCanvas));
  };
  EXPECT_THAT(error("mean_value: 1 mean_value: 2"),
              HasSubstr("(index 0) of " + At("db").string() +
                        ": transform_param.mean_value has 2 values, the record has 3 channels"));
  EXPECT_THAT(error("std_value: 1 std_value: 2"), HasSubstr("transform_param.std_value has 2 values"));
  const std::string means = "mean_value: 1 mean_value: 2 mean_value: 3 ";
  const auto tops =
      Next(*Open("RecordData", Fields({"PICTURE"}, "transform_param { force_color: true " + means + " }", 2, kCanvas)));
  const Image gray = Picture(10, 12, 1, 1);
  for (size_t c = 0; c < 3; ++c) {
    const float* plane = tops[0].data() + (3 + c) * 16 * 20;
    const auto mean = static_cast<float>(c + 1);
    for (size_t y = 0; y < 10; ++y) {
      for (size_t x = 0; x < 12; ++x) EXPECT_EQ(plane[y * 20 + x], gray.pixels[y * 12 + x] - mean) << c;
    }
    EXPECT_EQ(plane[12], -mean) << "beyond the picture";
  }
}

TEST_F(Layers, FieldsThatDoNotGoAreErrors) {
  WriteRecords({RecordOf(8, 8, {2, 2, 4, 4})});
  const auto error = [&](const std::string& record, const std::string& transform = "") {
    return OpenError("RecordData", Fields({"PICTURE"}, transform, 1, record));
  };
  EXPECT_THAT(error("canvas_height: 8"),
              HasSubstr("layer \"data\": record_data_param.canvas_height and canvas_width are 8 and 0, expected both "
                        "none or both 1..16384"));
  constexpr const char* kWhole =
      "record_data_param.canvas_height holds whole pictures as they are; it does not go with a crop or with height and "
      "width";
  EXPECT_THAT(error(kCanvas, "transform_param { crop_size: 4 }"), HasSubstr(kWhole));
  EXPECT_THAT(error(kCanvas, "transform_param { crop_h: 4 crop_w: 4 }"), HasSubstr(kWhole));
  EXPECT_THAT(error(std::string(kCanvas) + "height: 8 width: 8"), HasSubstr(kWhole));
}

}  // namespace
}  // namespace moka
