// The one refusal of pointwise, reduce_sum and their groups: types and layouts that the tile engine cannot bring to a
// tile.
#include "layers/kernels/cpu/tiles/expression_kernel.h"

#include <algorithm>

#include "core/text.h"

namespace moka {

std::string RefuseOperands(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Shape& shape,
                           const Layout& layout) {
  const auto is_double = [](const TensorType& type) { return type.dtype == DType::kFloat64; };
  for (const TensorType& output : outputs) {
    if (!IsFloat(output.dtype)) return StrCat("computes floating types, not ", NameOf(output.dtype));
  }
  if (std::ranges::any_of(outputs, is_double) && !std::ranges::all_of(outputs, is_double)) {
    return "float64 and other types are not computed together";
  }
  for (const TensorType& input : inputs) {
    const bool is_dense = input.shape == shape && input.layout == layout;
    if (!is_dense && !input.layout.is_plain()) {
      return StrCat("an input is ", input.ToString(), ": needs the plain layout or, at the full shape, ",
                    layout.Name(shape.rank()));
    }
  }
  return {};
}

}  // namespace moka
