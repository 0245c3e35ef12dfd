#include "layers/ops/recurrent/ops.h"

namespace moka {

std::vector<OpDef> RecurrentOps() {
  return {ClipGradientOp(), EmbedBackwardOp(), EmbedOp(), LstmBackwardOp(), LstmOp()};
}

}  // namespace moka
