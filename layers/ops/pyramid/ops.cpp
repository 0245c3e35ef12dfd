#include "layers/ops/pyramid/ops.h"

namespace moka {

std::vector<OpDef> PyramidOps() {
  return {
      MaskCutsOp(),         MaskOverlapsOp(),     PictureRegionsOp(), PyramidAnchorTargetsOp(),
      PyramidProposalsOp(), RegionDetectionsOp(), RowChannelsOp(),
  };
}

}  // namespace moka
