// The values of golden nets, which neither side stores: the formulas of tests/golden/moka_random.py.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "layers/net/net.h"
#include "proto/moka.pb.h"

namespace moka {

constexpr uint64_t kGoldenSeed = 1701;

// u in [0, 1), one a word of the stream of this name.
std::vector<float> GoldenUnits(std::string_view stream, int64_t count);

// Returns the values of a learned blob of `layer`; 0 for BatchNorm's.
std::vector<float> GoldenParameter(const NetBlob& blob, const LayerParameter& layer);
// Returns the values of one of BatchNorm's three blobs, in nets that run in their test phase.
std::vector<float> GoldenStatistic(const NetBlob& blob);

// A picture's values in [-1, 1).
std::vector<float> GoldenPicture(int64_t count);

// All places of a small tensor, else `samples` of them, drawn by its name.
std::vector<int64_t> GoldenSampleIndices(std::string_view name, int64_t count, int64_t samples);

}  // namespace moka
