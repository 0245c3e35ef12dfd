// The compressors of one rank: which gradients cross compressed, and what their compressors remember.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/compression/compressor.h"
#include "core/device/tensor.h"

namespace moka {

// A gradient that is compressed, where it lies.
struct CompressedGradient {
  std::string blob;
  Tensor values;
  std::unique_ptr<GradientCompressor> compressor;
  // The places of its elements in row-major order, where they do not lie so; the padding of a layout is never touched.
  std::vector<uint32_t> places = {};

  void Read(std::span<float> row_major) const;
  void Write(std::span<const float> row_major) const;
};

class GradientCompression {
 public:
  // Errors: kConfig as FindCompression.
  GradientCompression(const CompressionOptions& options, int rank, int ranks);

  const CompressionOptions& options() const { return options_; }
  const CompressionMethod& method() const { return method_; }
  int ranks() const { return ranks_; }
  // Whether a gradient of the shape has min_elements and its payload is smaller than itself.
  bool Suits(const Shape& shape) const;
  // The gradient of a weight that will be announced under `key` may be compressed.
  void Allow(int64_t key, std::string blob) { blobs_[key] = std::move(blob); }
  // As it is announced; null: it crosses as it is. It stays where it is as long as this lives.
  CompressedGradient* Add(int64_t key, const Tensor& values);
  const std::vector<std::unique_ptr<CompressedGradient>>& gradients() const { return gradients_; }

  // A compressor as gradient i has, with states of its own: to measure with.
  std::unique_ptr<GradientCompressor> Another(size_t i) const;
  bool IsOn(int64_t iteration) const { return iteration >= options_.start_iter; }

 private:
  CompressionOptions options_;
  const CompressionMethod& method_;
  int rank_;
  int ranks_;
  std::map<int64_t, std::string> blobs_;  // by key
  std::vector<std::unique_ptr<CompressedGradient>> gradients_;
};

}  // namespace moka
