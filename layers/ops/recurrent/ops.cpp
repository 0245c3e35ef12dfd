#include "layers/ops/recurrent/ops.h"

namespace moka {

std::vector<OpDef> RecurrentOps() { return {}; }

}  // namespace moka
