// Nodes of ONNX that together are one layer, found before they are turned into layers one by one: what an exporter took
// apart is put together again, so that a person can read the net. What is not exactly one of the patterns stays as it
// is, and is right all the same.
#pragma once

#include "tools/exchange/import/onnx_file.h"

namespace moka {

// Computes constants of constants, and replaces: the nodes of SSD's boxes by one (detection_form.h); x * Sigmoid(x) by
// Swish; the Erf form of GELU by Gelu; the steps of a normalisation over the last axis by LayerNormalization; those of a
// local one within channels by one node; a product with constants and the sum behind it by one node; a Flatten in front
// of a Gemm by nothing.
void SimplifyOnnx(OnnxFile& file);

}  // namespace moka
