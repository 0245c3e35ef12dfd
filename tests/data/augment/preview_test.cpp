// Sheets show records with mean and scale taken back, epochs as columns.
#include "data/inspect/preview.h"

#include "core/log.h"
#include "tests/data/augment/augment_fixture.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

class Previews : public DataTest {
 protected:
  Previews() {
    SetStderrLevel(LogLevel::kError);
    WriteDatabase(At("db"), {RawDatum(3, 100, 100, 0, 0), RawDatum(3, 100, 100, 90, 1)});
  }
  LayerParameter Layer(const std::string& transform) const {
    return FieldsOf<LayerParameter>("name: 'd' type: 'Data' top: 'd' top: 'l' transform_param { " + transform +
                                    " } data_param { source: 'db' backend: LMDB batch_size: 64 shuffle: true }");
  }
  Image Sheet(const std::string& transform, int64_t epochs) const {
    return PreviewLayer(Layer(transform), {.records = 4, .epochs = epochs, .base_folder = folder_});
  }
  // The picture in a row and column of a sheet of 100 x 100 pictures.
  static std::vector<uint8_t> Part(const Image& sheet, int64_t row, int64_t column) {
    std::vector<uint8_t> pixels;
    for (int64_t y = 0; y < 100; ++y) {
      const auto from = sheet.pixels.begin() + ((3 + row * 103 + y) * sheet.width + 3 + column * 103) * 3;
      pixels.insert(pixels.end(), from, from + 300);
    }
    return pixels;
  }
  static std::vector<uint8_t> Record(int seed) {
    std::vector<uint8_t> pixels;
    for (int i = 0; i < 100 * 100; ++i) {
      for (int c = 0; c < 3; ++c) pixels.push_back(static_cast<uint8_t>(seed + c * 10000 + i));
    }
    return pixels;
  }
};

TEST_F(Previews, RowsAreRecordsWithTheirMeanAndScaleTakenBack) {
  const Image sheet = Sheet("mean_value: 10 mean_value: 20 mean_value: 30 scale: 0.25 std_value: 7", 3);
  EXPECT_EQ(sheet.width, 3 + 3 * 103);
  EXPECT_EQ(sheet.height, 3 + 2 * 103);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(Part(sheet, 0, epoch), Record(0));
    EXPECT_EQ(Part(sheet, 1, epoch), Record(90));
  }
}

TEST_F(Previews, ColumnsAreEpochs) {
  const Image sheet = Sheet("augment { color { brightness: 0.5 } }", 2);
  EXPECT_NE(Part(sheet, 0, 0), Record(0));
  EXPECT_NE(Part(sheet, 0, 0), Part(sheet, 0, 1));
}

TEST_F(Previews, WhatIsNoPictureIsRefused) {
  WriteDatabase(At("db5"), {RawDatum(5, 4, 4, 0, 0)});
  LayerParameter layer = Layer("");
  layer.mutable_data_param()->set_source("db5");
  EXPECT_THAT(ErrorOf([&] { PreviewLayer(layer, {.base_folder = folder_}); }),
              testing::HasSubstr("samples of the shape [1,5,4,4] are no pictures of 1 or 3 channels"));
}

TEST_F(Previews, StacksHaveCaptions) {
  Image image;
  image.Resize(40, 10, 3);
  const Image stacked = Stacked({{"one", image}, {"two", image}});
  EXPECT_EQ(stacked.width, 40);
  EXPECT_EQ(stacked.height, 2 * (22 + 10));
  EXPECT_EQ(stacked.pixels[static_cast<size_t>(22 * 40 * 3)], 0);                                   // the picture
  EXPECT_EQ(stacked.pixels[static_cast<size_t>(39 * 3)], 255);                                      // paper
  EXPECT_LT(*std::min_element(stacked.pixels.begin(), stacked.pixels.begin() + 22 * 40 * 3), 100);  // letters
}

}  // namespace
}  // namespace moka
