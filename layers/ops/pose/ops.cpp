#include "layers/ops/pose/ops.h"

namespace moka {

std::vector<OpDef> PoseOps() { return {CubicMeanOp(), HeatPeaksOp(), MapMaximaOp()}; }

}  // namespace moka
