// Ops of inference with 8-bit integers, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef ConvolutionInt8Op();
OpDef DequantizeOp();
OpDef QuantizeOp();

std::vector<OpDef> Int8Ops();

}  // namespace moka
