// What the kernels of ops that hold an expression have in common: types and layouts they take.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "graph/kernel.h"

namespace moka {

// The shape inputs broadcast to. Requires: infer accepted them.
Shape CommonShape(std::span<const TensorType> inputs);
// The layout of the first input of that shape that is not plain; plain if there is none.
Layout CommonLayout(std::span<const TensorType> inputs, const Shape& shape);
// Empty if every input either has the shape and layout given or is plain, and all dtypes are known to the tile engine.
std::string RefuseOperands(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Shape& shape,
                           const Layout& layout);
// Inputs of the shape in the layout, the others plain.
std::vector<Layout> OperandLayouts(std::span<const TensorType> inputs, const Shape& shape, const Layout& layout);

}  // namespace moka
