#include "layers/ops/recurrent/ops.h"

namespace moka {

std::vector<OpDef> RecurrentOps() {
  return {ClipGradientOp(), EmbedBackwardOp(), EmbedOp(), EmbedSumBackwardOp(), EmbedSumOp(),    EmbedUpdateOp(),
          GruBackwardOp(),  GruForwardOp(),    GruOp(),   LstmBackwardOp(),     LstmForwardOp(), LstmOp()};
}

}  // namespace moka
