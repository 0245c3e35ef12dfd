// The walk takes the layout of the first operand of the full shape; all others are strided, repeated or repacked to it.
#include "layers/kernels/expression_kernel.h"

#include <algorithm>

namespace moka {

// Broadcasting: an extent of 1 gives way to any other.
Shape CommonShape(std::span<const TensorType> inputs) {
  Shape shape;
  for (const TensorType& input : inputs) {
    if (shape.rank() == 0) shape = input.shape;
    for (int axis = 0; axis < input.shape.rank(); ++axis) {
      if (shape[axis] == 1) shape = shape.With(axis, input.shape[axis]);
    }
  }
  return shape;
}

Layout CommonLayout(std::span<const TensorType> inputs, const Shape& shape) {
  const auto it = std::ranges::find_if(
      inputs, [&](const TensorType& input) { return input.shape == shape && !input.layout.is_plain(); });
  return it == inputs.end() ? Layout{} : it->layout;
}

std::vector<Layout> OperandLayouts(std::span<const TensorType> inputs, const Shape& shape, const Layout& layout) {
  std::vector<Layout> layouts;
  for (const TensorType& input : inputs) layouts.push_back(input.shape == shape ? layout : Layout{});
  return layouts;
}

}  // namespace moka
