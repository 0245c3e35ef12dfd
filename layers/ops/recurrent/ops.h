// Ops of layers/front/recurrent, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef ClipGradientOp();
OpDef EmbedBackwardOp();
OpDef EmbedOp();
OpDef EmbedSumBackwardOp();
OpDef EmbedSumOp();
OpDef EmbedUpdateOp();
OpDef GruBackwardOp();
OpDef GruForwardOp();
OpDef GruOp();
OpDef LstmBackwardOp();
OpDef LstmForwardOp();
OpDef LstmOp();

std::vector<OpDef> RecurrentOps();

}  // namespace moka
