// The one refusal of pointwise, reduce_sum and their groups: types and layouts that the tile engine cannot bring to a
// tile.
#include "layers/kernels/cpu/tiles/expression_kernel.h"

#include "core/text.h"

namespace moka {

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

}  // namespace moka
