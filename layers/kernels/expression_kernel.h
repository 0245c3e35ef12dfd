// The part that kernels of ops with an expression have in common on every device: the shape and layout they go through.
#pragma once

#include <span>
#include <vector>

#include "core/types.h"

namespace moka {

// The shape inputs broadcast to. Requires: infer accepted them.
Shape CommonShape(std::span<const TensorType> inputs);
// The layout of the first input of that shape that is not plain; plain if there is none.
Layout CommonLayout(std::span<const TensorType> inputs, const Shape& shape);
// Inputs of the shape in the layout, the others plain.
std::vector<Layout> OperandLayouts(std::span<const TensorType> inputs, const Shape& shape, const Layout& layout);

}  // namespace moka
