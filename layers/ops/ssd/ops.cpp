#include "layers/ops/ssd/ops.h"

namespace moka {

std::vector<OpDef> SsdOps() {
  return {CenterGridsOp(), DetectionEvaluateOp(), DetectionOutputOp(), MultiboxMatchOp(), PriorBoxOp()};
}

}  // namespace moka
