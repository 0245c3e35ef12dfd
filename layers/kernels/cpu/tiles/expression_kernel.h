// The types and layouts that the CPU's kernels of ops with an expression take.
#pragma once

#include <span>
#include <string>

#include "graph/kernel.h"
#include "layers/kernels/expression_kernel.h"

namespace moka {

// Empty if every input either has the shape and layout given or is plain, and the outputs are float32 or float64 (then
// all of them), or half types.
std::string RefuseOperands(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Shape& shape,
                           const Layout& layout);

}  // namespace moka
