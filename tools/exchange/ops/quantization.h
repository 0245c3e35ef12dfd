// Values of 8 bits where ops of ONNX take and give real numbers.
#pragma once

#include <string>

#include "tools/exchange/onnx_op.h"

namespace moka {

// Input i as real numbers: of a value of 8 bits by a DequantizeLinear of its own, as runtimes look for them.
std::string ReadReals(OnnxNode& n, int i);
// Gives the node's output, of 8 bits, as these real numbers rounded.
void GiveIntegers(OnnxNode& n, const std::string& reals);

}  // namespace moka
