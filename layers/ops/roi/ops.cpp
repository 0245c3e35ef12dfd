#include "layers/ops/roi/ops.h"

namespace moka {

std::vector<OpDef> RoiOps() { return {}; }

}  // namespace moka
