// The softmax of one contiguous row, as vector loops.
#pragma once

#include <cstdint>

namespace moka {

// p[i] = exp(x[i] - max x) / sum of those; p may be x, or null: then nothing is written. Returns what p[at] is. A NaN
// in x makes every p NaN. The same bits on every processor, with p or without.
using SoftmaxRow = float (*)(const float* x, float* p, int64_t n, int64_t at);
SoftmaxRow BestSoftmaxRow();

// The sum over a row of min(-log p[i], most), in double, from scores x and their softmax p. -log p of each is its
// score's distance from one logarithm, that of the sum, which the likeliest one has exactly: no logarithm an element.
// The same bits on every processor.
using CostsRow = double (*)(const float* x, const float* p, int64_t n, double most);
CostsRow BestCostsRow();

}  // namespace moka
