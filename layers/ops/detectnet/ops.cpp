#include "layers/ops/detectnet/ops.h"

namespace moka {

std::vector<OpDef> DetectNetOps() {
  return {
      AugmentChoicesOp(), AugmentColourOp(), AugmentPlaceOp(), BoxCoverageOp(), ClusterBoxesOp(), ScoreBoxesOp(),
  };
}

}  // namespace moka
