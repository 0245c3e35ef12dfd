#include "layers/ops/ssd/ops.h"

namespace moka {

std::vector<OpDef> SsdOps() { return {}; }

}  // namespace moka
