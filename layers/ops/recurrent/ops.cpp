#include "layers/ops/recurrent/ops.h"

namespace moka {

std::vector<OpDef> RecurrentOps() {
  return {ClipGradientOp(), EmbedBackwardOp(), EmbedOp(),        EmbedUpdateOp(),
          GruBackwardOp(),  GruOp(),           LstmBackwardOp(), LstmOp()};
}

}  // namespace moka
