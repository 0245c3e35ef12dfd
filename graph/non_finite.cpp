// Looks at the values of a tensor as it is stored, its half types through their float.
#include "graph/non_finite.h"

#include <cmath>

#include "core/half.h"

namespace moka {

std::optional<NonFinite> FirstNonFinite(const Tensor& tensor, std::string_view layer, const std::string& what) {
  const DType dtype = tensor.type().dtype;
  if (!IsFloat(dtype) || dtype == DType::kFloat64 || tensor.raw() == nullptr) return std::nullopt;
  const auto at = [&](int64_t i) {
    if (dtype == DType::kFloat32) return static_cast<const float*>(tensor.raw())[i];
    const uint16_t half = static_cast<const uint16_t*>(tensor.raw())[i];
    return dtype == DType::kFloat16 ? FloatOfHalf(half) : FloatOfBFloat16(half);
  };
  for (int64_t i = 0; i < tensor.type().StoredCount(); ++i) {
    if (!std::isfinite(at(i))) return NonFinite{std::string(layer), what, i, static_cast<double>(at(i))};
  }
  return std::nullopt;
}

}  // namespace moka
