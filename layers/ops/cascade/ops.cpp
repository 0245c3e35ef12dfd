#include "layers/ops/cascade/ops.h"

namespace moka {

std::vector<OpDef> CascadeOps() {
  return {
      BranchAccuracyOp(), BranchProposalsOp(), BranchTargetsOp(), ClassDetectionsOp(), DecodeRegionsOp(),
      HardRowsOp(),       RegionAccuracyOp(),  RegionTargetsOp(), ScaleRowsOp(),
  };
}

}  // namespace moka
