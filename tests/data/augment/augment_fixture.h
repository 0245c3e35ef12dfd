// The part that the tests of random changes share: the goldens' picture and numbers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "proto/moka.pb.h"
#include "proto/text/text_format.h"

namespace moka {

class AugmentGoldens : public testing::Test {
 protected:
  AugmentGoldens() { std::ifstream(MOKA_SOURCE_DIR "/tests/golden/data_augment.json") >> goldens_; }

  // The picture of make_augment_goldens.py.
  Image Picture(int64_t channels) const {
    const auto height = goldens_.at("height").get<int64_t>();
    const auto width = goldens_.at("width").get<int64_t>();
    Image image;
    image.Resize(width, height, channels);
    size_t at = 0;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t smooth = 20 + 9 * x + 5 * y + 17 * c;
          const int64_t rough = (x * 37 + y * 11 + c * 53 + x * y * 7 % 64) % 200 + 30;
          image.pixels[at++] = static_cast<uint8_t>(y < height / 2 ? smooth : rough);
        }
      }
    }
    return image;
  }

  static std::vector<uint8_t> Bytes(const nlohmann::json& hex) {
    const auto text = hex.get<std::string>();
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
      bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
    }
    return bytes;
  }

  // The largest difference of two bytes; -1 for pictures of different sizes.
  static int Distance(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
    if (a.size() != b.size()) return -1;
    int most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(int{a[i]} - int{b[i]}));
    return most;
  }

  nlohmann::json goldens_;
};

template <class Message>
Message FieldsOf(const std::string& text) {
  Message message;
  ParseText(text, "fields", message);
  return message;
}

}  // namespace moka
