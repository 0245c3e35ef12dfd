// COCO's average precision of boxes, from the rows of CocoEvaluate layers.
#pragma once

#include <string>
#include <vector>

#include "optim/evaluators/coco_precision.h"
#include "optim/evaluators/evaluator.h"

namespace moka {

// Returns the values that a test prints for a top of this name.
std::vector<OutputValue> CocoValues(const std::string& top, const CocoPrecision& precision, bool has_sizes);

}  // namespace moka
