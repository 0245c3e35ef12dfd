// The build lists the types that it leaves out by the forks' pages (layers/CMakeLists.txt).
#include "layers/net/fork_types.h"

#include <algorithm>

namespace moka {

bool IsLeftOut(std::string_view type) { return std::ranges::binary_search(LeftOutTypes(), type); }

bool IsWithoutForks() { return !LeftOutTypes().empty(); }

}  // namespace moka
