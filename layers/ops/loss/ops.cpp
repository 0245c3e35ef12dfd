#include "layers/ops/loss/ops.h"

namespace moka {

std::vector<OpDef> LossOps() {
  return {HardExampleMaskOp(), LabelMaskOp(), OutputDecayOp(), SampleTripletsOp(), TableOp()};
}

}  // namespace moka
