// The search for values that are not finite.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/device/tensor.h"
#include "graph/program.h"

namespace moka {

// The first of a tensor in the host's memory; none of tensors without data and of types that are always finite or too
// wide to look at.
std::optional<NonFinite> FirstNonFinite(const Tensor& tensor, std::string_view layer, const std::string& what);

}  // namespace moka
