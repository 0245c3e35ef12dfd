// COCO's average precision of boxes, from the rows of CocoEvaluate layers.
#pragma once

#include <memory>

#include "optim/evaluators/evaluator.h"

namespace moka {

std::unique_ptr<Evaluator> MakeCocoEvaluator(const LayerParameter& layer, const EvaluatorOptions& options);

}  // namespace moka
