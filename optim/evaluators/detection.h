// Mean average precision of boxes, from the rows of DetectionEvaluate layers.
#pragma once

#include <memory>

#include "optim/evaluators/evaluator.h"

namespace moka {

// Null unless detections are asked for.
std::unique_ptr<Evaluator> MakeDetectionEvaluator(const LayerParameter& layer, const EvaluatorOptions& options);

}  // namespace moka
