#include "layers/ops/segmentation/ops.h"

namespace moka {

std::vector<OpDef> SegmentationOps() { return {}; }

}  // namespace moka
