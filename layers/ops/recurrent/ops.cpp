#include "layers/ops/recurrent/ops.h"

namespace moka {

std::vector<OpDef> RecurrentOps() {
  return {ClipGradientOp(), EmbedBackwardOp(), EmbedOp(), GruBackwardOp(), GruOp(), LstmBackwardOp(), LstmOp()};
}

}  // namespace moka
