#include "optim/evaluators/evaluator.h"

#include <algorithm>
#include <array>

#include "optim/evaluators/coco.h"
#include "optim/evaluators/detection.h"
#include "optim/evaluators/masks.h"
#include "optim/evaluators/segmentation.h"

namespace moka {
namespace {

struct EvaluatorRow {
  std::string_view type;  // of the layer
  std::unique_ptr<Evaluator> (*make)(const LayerParameter& layer, const EvaluatorOptions& options);
};

constexpr std::array kEvaluators = {
    EvaluatorRow{"CocoEvaluate", MakeCocoEvaluator},
    EvaluatorRow{"DetectionEvaluate", MakeDetectionEvaluator},
    EvaluatorRow{"MaskEvaluate", MakeMaskEvaluator},
    EvaluatorRow{"SegmentationEvaluate", MakeSegmentationEvaluator},
};

const EvaluatorRow* FindEvaluator(std::string_view type) {
  const auto* const found = std::ranges::find(kEvaluators, type, &EvaluatorRow::type);
  return found == kEvaluators.end() ? nullptr : found;
}

}  // namespace

std::unique_ptr<Evaluator> MakeEvaluator(const LayerParameter& layer, const EvaluatorOptions& options) {
  const EvaluatorRow* row = FindEvaluator(layer.type());
  return row == nullptr ? nullptr : row->make(layer, options);
}

bool HasEvaluator(std::string_view type) { return FindEvaluator(type) != nullptr; }

}  // namespace moka
