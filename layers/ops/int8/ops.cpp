#include "layers/ops/int8/ops.h"

namespace moka {

std::vector<OpDef> Int8Ops() { return {ConvolutionInt8Op(), DequantizeOp(), QuantizeOp()}; }

}  // namespace moka
