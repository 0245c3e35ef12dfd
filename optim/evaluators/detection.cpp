// Rows of DetectionEvaluate layers become SSD's mean average precision.
#include "optim/evaluators/evaluator.h"

namespace moka {
namespace {

class DetectionEvaluator final : public Evaluator {
 public:
  explicit DetectionEvaluator(PrecisionRule rule) : rule_(rule) {}

  void Reset() override { scores_ = {}; }
  void Add(std::span<const float> values) override { scores_.Add(values); }
  std::vector<OutputValue> Values(const std::string& top) const override {
    OutputValue mean;
    mean.name = top;
    mean.value = scores_.Mean(rule_);
    mean.classes = scores_.AveragePrecisions(rule_);
    return {mean};
  }

 private:
  PrecisionRule rule_;
  DetectionScores scores_;
};

}  // namespace

EvaluatorRow DetectionEvaluatorRow() {
  return {"DetectionEvaluate",
          [](const LayerParameter& /*layer*/, const EvaluatorOptions& options) -> std::unique_ptr<Evaluator> {
            if (!options.detections) return nullptr;
            return std::make_unique<DetectionEvaluator>(options.rule);
          }};
}

}  // namespace moka
