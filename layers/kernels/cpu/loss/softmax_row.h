// The softmax of one contiguous row, as vector loops.
#pragma once

#include <cstdint>

namespace moka {

// p[i] = exp(x[i] - max x) / sum of those; p may be x, or null: then nothing is written. Returns what p[at] is. A NaN
// in x makes every p NaN. The same bits on every processor, with p or without.
using SoftmaxRow = float (*)(const float* x, float* p, int64_t n, int64_t at);
SoftmaxRow BestSoftmaxRow();

}  // namespace moka
