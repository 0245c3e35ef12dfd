// Intersection over union, accuracy and Dice by class, from the counts of SegmentationEvaluate layers.
#pragma once

#include <memory>

#include "optim/evaluators/evaluator.h"

namespace moka {

std::unique_ptr<Evaluator> MakeSegmentationEvaluator(const LayerParameter& layer, const EvaluatorOptions& options);

}  // namespace moka
