// Ops of layers/front/ssd, one file each, alphabetical, and what their references share with the kernels.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

class RealsOut;

OpDef CenterGridsOp();
OpDef DetectionEvaluateOp();
OpDef DetectionOutputOp();
OpDef MultiboxMatchOp();
OpDef PriorBoxOp();

// The values of prior_box. Requires: attributes that its infer accepts.
void FillPriorBoxes(const Attributes& attributes, const RealsOut& out);

std::vector<OpDef> SsdOps();

}  // namespace moka
