#include "layers/ops/yolo/ops.h"

namespace moka {

std::vector<OpDef> YoloOps() { return {}; }

}  // namespace moka
