// Test cases of the ops that hold expressions.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

// Activations, broadcasts, updates with several outputs, and random masks.
std::vector<OpCase> PointwiseCases();
// Norms, gradients of biases and scales, sums over every kind of axes.
std::vector<OpCase> ReduceSumCases();

}  // namespace moka
