#include "layers/ops/shape/ops.h"

namespace moka {

std::vector<OpDef> ShapeOps() { return {FilterIndexOp(), FlipOp(), ReindexBackwardOp(), ReindexOp()}; }

}  // namespace moka
