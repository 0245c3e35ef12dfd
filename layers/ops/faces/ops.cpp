#include "layers/ops/faces/ops.h"

namespace moka {

std::vector<OpDef> FaceOps() {
  return {CenterGridLossOp(), CenterPeaksOp(), FaceScoresOp(), NearNegativesOp(), TripletRowsLossOp()};
}

}  // namespace moka
