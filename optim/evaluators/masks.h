// COCO's average precision of masks, from the tables of MaskEvaluate layers.
#pragma once

#include <memory>

#include "optim/evaluators/evaluator.h"

namespace moka {

std::unique_ptr<Evaluator> MakeMaskEvaluator(const LayerParameter& layer, const EvaluatorOptions& options);

}  // namespace moka
