// The part that the tests of layers of pictures share: small pictures of a formula, and OpenCV's results for them.
#pragma once

#include <google/protobuf/text_format.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/pipeline/open_pipeline.h"
#include "tests/data/data_fixture.h"

namespace moka {

class PictureLayers : public DataTest {
 protected:
  explicit PictureLayers(const std::string& goldens = "data_layers.json") {
    SetStderrLevel(LogLevel::kError);
    std::ifstream(MOKA_SOURCE_DIR "/tests/golden/" + goldens) >> goldens_;
  }

  // The pictures of the goldens' script.
  static Image Picture(int64_t height, int64_t width, int64_t channels, int64_t seed) {
    Image image;
    image.Resize(width, height, channels);
    size_t at = 0;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        for (int64_t c = 0; c < channels; ++c) {
          image.pixels[at++] = static_cast<uint8_t>((x * 37 + y * 11 + c * 53 + seed * 29 + x * y * 7 % 64) % 256);
        }
      }
    }
    return image;
  }
  void WritePair() const {
    Write("p/image.png", EncodePng(Picture(7, 9, 3, 1)));
    Write("p/label.png", EncodePng(Picture(7, 9, 1, 2)));
    Write("list.txt", "image.png label.png\n");
  }

  static LayerParameter Layer(const std::string& type, const std::string& fields) {
    LayerParameter layer;
    const std::string text = "name: 'data' type: '" + type + "' " + fields;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &layer)) << text;
    return layer;
  }
  std::unique_ptr<Pipeline> Open(const std::string& type, const std::string& fields, Phase phase = TEST,
                                 uint64_t seed = 1) const {
    return OpenPipeline(Layer(type, fields), {.phase = phase, .seed = seed, .threads = 2, .base_folder = folder_});
  }
  std::string OpenError(const std::string& type, const std::string& fields) const {
    return ErrorOf([&] { Next(*Open(type, fields)); });
  }
  void ExpectGolden(const std::string& name, const std::vector<std::vector<float>>& tops) const {
    constexpr const char* kParts[] = {"data", "label", "sizes"};
    for (size_t t = 0; t < tops.size(); ++t) {
      const auto expected = goldens_.at(name).at(kParts[t]).get<std::vector<float>>();
      ASSERT_EQ(tops[t].size(), expected.size()) << name << " " << kParts[t];
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(tops[t][i], expected[i], 1e-3) << name << " " << kParts[t] << " " << i;
      }
    }
  }

  nlohmann::json goldens_;
};

}  // namespace moka
