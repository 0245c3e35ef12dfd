// Fork types are told from others by their pages: a type that has one, but no row in this build, is a fork's.
#include "layers/net/fork_types.h"

#include <algorithm>

#include "layers/net/layer.h"

namespace moka {

bool IsForkType(std::string_view type) {
  const std::vector<std::string_view> documented = DocumentedTypes();
  return std::ranges::binary_search(documented, type) && FindLayer(type) == nullptr;
}

bool IsWithoutForks() { return !DocumentedTypes().empty(); }

}  // namespace moka
