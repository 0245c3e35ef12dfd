// The random words of tests/golden/moka_random.py (Philox), by names: both sides compute inputs and weights, so that
// goldens hold results only.
#include "tests/golden_values.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr uint64_t kSampleSeed = 7;

// centre + width * (u - 1/2), in double and rounded once.
std::vector<float> Spread(std::string_view stream, int64_t count, double center, double width) {
  std::vector<float> values = GoldenUnits(stream, count);
  for (float& v : values) v = static_cast<float>(center + width * (static_cast<double>(v) - 0.5));
  return values;
}

}  // namespace

std::vector<float> GoldenUnits(std::string_view stream, int64_t count) {
  const uint64_t hash = StableHash(stream);
  std::vector<float> u(static_cast<size_t>(count));
  for (size_t k = 0; k < u.size(); k += 4) {  // four words a block
    const uint64_t block = k / 4;
    const auto words = Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32U),
                               static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32U)},
                              {static_cast<uint32_t>(kGoldenSeed), static_cast<uint32_t>(kGoldenSeed >> 32U)});
    for (size_t i = k; i < std::min(k + 4, u.size()); ++i) u[i] = UnitFloat(words[i - k]);
  }
  return u;
}

std::vector<float> GoldenParameter(const NetBlob& blob, const LayerParameter& layer) {
  const int64_t count = blob.shape.Count();
  if (layer.type() == "BatchNorm") return std::vector<float>(static_cast<size_t>(count), 0.0F);
  double center = 0;
  double width = 0.2;
  if (layer.type() == "Scale" && blob.index == 0) {
    const bool zero = layer.scale_param().has_filler() && layer.scale_param().filler().type() == "constant" &&
                      layer.scale_param().filler().value() == 0.0F;
    center = zero ? 0.25 : 1;
  } else if (layer.type() == "PReLU") {
    center = 0.25;
  } else if (blob.shape.rank() >= 2) {
    width = 2 * std::sqrt(2.0) * std::sqrt(3.0 / static_cast<double>(blob.shape.Count(1, blob.shape.rank())));
  }
  return Spread(StrCat(blob.layer, "/", blob.index), count, center, width);
}

std::vector<float> GoldenStatistic(const NetBlob& blob) {
  constexpr double kFactor = 2;  // the third blob, by which the others are divided
  const int64_t count = blob.shape.Count();
  if (blob.index == 2) return std::vector<float>(static_cast<size_t>(count), static_cast<float>(kFactor));
  const std::string stream = StrCat(blob.layer, "/", blob.index);
  return blob.index == 0 ? Spread(stream, count, 0, kFactor / 2) : Spread(stream, count, kFactor, kFactor);
}

std::vector<float> GoldenPicture(int64_t count) { return Spread("data", count, 0, 2); }

std::vector<int64_t> GoldenSampleIndices(std::string_view name, int64_t count, int64_t samples) {
  std::vector<int64_t> indices;
  for (int64_t j = 0; j < std::min(count, samples); ++j) {
    const bool all = count <= samples;
    indices.push_back(all ? j : RandomWord(kSampleSeed, StableHash(name), static_cast<uint64_t>(j)) % count);
  }
  return indices;
}

}  // namespace moka
