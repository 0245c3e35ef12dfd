// The softmax of one contiguous row, as vector loops.
#pragma once

#include <cstdint>

namespace moka {

// p[i] = exp(x[i] - max x) / sum of those; p may be x. A NaN in x makes every p NaN. The same bits on every processor.
using SoftmaxRow = void (*)(const float* x, float* p, int64_t n);
SoftmaxRow BestSoftmaxRow();

}  // namespace moka
