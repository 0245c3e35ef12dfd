// The part that the data tests share: a folder that goes away, small databases, expected errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "core/device/tensor.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "data/image/image.h"
#include "data/pipeline/pipeline.h"
#include "data/records/lmdb_file.h"
#include "data/records/lmdb_writer.h"
#include "proto/moka.pb.h"

namespace moka {

class DataTest : public testing::Test {
 protected:
  DataTest() {
    std::string name = (std::filesystem::temp_directory_path() / "moka_data_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~DataTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    SetStderrLevel(LogLevel::kInfo);  // what a test has quietened says nothing of the next
  }
  std::filesystem::path At(const std::string& name) const { return folder_ / name; }
  void Write(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories(At(name).parent_path());
    std::ofstream(At(name), std::ios::binary) << bytes;
  }

  // The values of the next batch, a vector a top.
  static std::vector<std::vector<float>> Next(Pipeline& pipeline) {
    std::vector<OwnedTensor> tops;
    std::vector<Tensor> tensors;
    for (const TensorType& type : pipeline.types()) tops.emplace_back(type);
    for (const OwnedTensor& top : tops) tensors.push_back(top.tensor());
    pipeline.Next(tensors);
    std::vector<std::vector<float>> values;
    for (const OwnedTensor& top : tops) values.emplace_back(top.as<float>().begin(), top.as<float>().end());
    return values;
  }

  std::filesystem::path folder_;
};

// The error a function throws; a test failure when it throws none.
inline std::string ErrorOf(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

// Raw Datum [channels, side, side] whose byte i is (seed + i) mod 256.
inline Datum RawDatum(int channels, int height, int width, int seed, int label) {
  Datum datum;
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_label(label);
  for (int i = 0; i < channels * height * width; ++i) datum.mutable_data()->push_back(static_cast<char>(seed + i));
  return datum;
}

inline void WriteDatabase(const std::filesystem::path& path, const std::vector<Datum>& datums) {
  LmdbWriter writer(path);
  for (const Datum& datum : datums) writer.Put(LmdbKey(writer.entries(), "r"), datum.SerializeAsString());
  writer.Finish();
}

// A smooth picture, so that JPEG keeps it nearly as it is.
inline Image Gradient(int64_t width, int64_t height, int64_t channels) {
  Image image;
  image.Resize(width, height, channels);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t value = c == 0 ? 255 * x / width : c == 1 ? 255 * y / height : 128;
        image.pixels[static_cast<size_t>((y * width + x) * channels + c)] = static_cast<uint8_t>(value);
      }
    }
  }
  return image;
}

}  // namespace moka
