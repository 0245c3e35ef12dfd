#include "layers/cpu/expression_kernel.h"

#include <algorithm>

#include "core/text.h"

namespace moka {

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

std::string RefuseOperands(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Shape& shape,
                           const Layout& layout) {
  for (const TensorType& output : outputs) {
    if (output.dtype != DType::kFloat32 && output.dtype != DType::kFloat64) {
      return StrCat("computes float32 and float64, not ", NameOf(output.dtype));
    }
  }
  for (const TensorType& input : inputs) {
    if (input.dtype == DType::kFloat16 || input.dtype == DType::kBFloat16) {
      return StrCat("does not read ", NameOf(input.dtype));
    }
    const bool is_dense = input.shape == shape && input.layout == layout;
    if (!is_dense && !input.layout.is_plain()) {
      return StrCat("an input is ", input.ToString(), ": needs the plain layout or, at the full shape, ",
                    layout.Name(shape.rank()));
    }
  }
  return {};
}

std::vector<Layout> OperandLayouts(std::span<const TensorType> inputs, const Shape& shape, const Layout& layout) {
  std::vector<Layout> layouts;
  for (const TensorType& input : inputs) layouts.push_back(input.shape == shape ? layout : Layout{});
  return layouts;
}

}  // namespace moka
