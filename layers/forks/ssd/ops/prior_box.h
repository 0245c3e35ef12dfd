// The boxes of prior_box, which its reference and kernels share.
#pragma once

#include "graph/op.h"
#include "layers/forks/ssd/ops/boxes.h"

namespace moka {

// The values of prior_box. Requires: attributes that its infer accepts.
void FillPriorBoxes(const Attributes& attributes, const RealsOut& out);

}  // namespace moka
