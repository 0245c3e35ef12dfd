// Chooses the gradients that cross compressed: those of learned blobs that are large enough and whose payload is
// smaller than themselves. Compressors see values in row-major order; blocked layouts go through a table of places.
#include "comm/compression/gradient_compression.h"

#include <algorithm>
#include <array>

namespace moka {
namespace {

std::vector<uint32_t> PlacesOf(const TensorType& type) {
  std::vector<uint32_t> places;
  if (type.layout.is_plain()) return places;
  const int64_t count = type.shape.Count();
  places.reserve(static_cast<size_t>(count));
  std::array<int64_t, Shape::kMaxRank> index{};
  const int rank = type.shape.rank();
  for (int64_t i = 0; i < count; ++i) {
    const std::span<const int64_t> at(index.data(), static_cast<size_t>(rank));
    places.push_back(static_cast<uint32_t>(type.layout.Offset(type.shape, at)));
    for (int axis = rank - 1; axis >= 0; --axis) {
      if (++index[static_cast<size_t>(axis)] < type.shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
  return places;
}

}  // namespace

void CompressedGradient::Read(std::span<float> row_major) const {
  const std::span<const float> stored = values.as<const float>();
  for (size_t i = 0; i < places.size(); ++i) row_major[i] = stored[places[i]];
}

void CompressedGradient::Write(std::span<const float> row_major) const {
  const std::span<float> stored = values.as<float>();
  for (size_t i = 0; i < places.size(); ++i) stored[places[i]] = row_major[i];
}

GradientCompression::GradientCompression(const CompressionOptions& options, int rank, int ranks)
    : options_(options), method_(FindCompression(options)), rank_(rank), ranks_(ranks) {}

bool GradientCompression::Suits(const Shape& shape) const {
  const int64_t count = shape.Count();
  return count >= options_.min_elements && count <= INT32_MAX && method_.payload(options_, shape) < count;
}

CompressedGradient* GradientCompression::Add(int64_t key, const Tensor& values) {
  const auto blob = blobs_.find(key);
  if (blob == blobs_.end() || !Suits(values.shape())) return nullptr;
  const CompressorPlace place{static_cast<uint32_t>(gradients_.size()), rank_, ranks_};
  gradients_.push_back(std::make_unique<CompressedGradient>(CompressedGradient{
      blob->second, values, method_.make(options_, values.shape(), place), PlacesOf(values.type())}));
  return gradients_.back().get();
}

std::unique_ptr<GradientCompressor> GradientCompression::Another(size_t i) const {
  return method_.make(options_, gradients_[i]->values.shape(), {static_cast<uint32_t>(i), rank_, ranks_});
}

}  // namespace moka
