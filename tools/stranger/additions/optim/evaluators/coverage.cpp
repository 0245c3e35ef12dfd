// How many classes a net ever predicts in a test: a net that has learned one class only shows here.
#include <set>

#include "optim/evaluators/evaluator.h"

namespace moka {
namespace {

class CoverageEvaluator final : public Evaluator {
 public:
  void Reset() override { predicted_.clear(); }
  void Add(std::span<const float> values) override { predicted_.insert(values.begin(), values.end()); }
  std::vector<OutputValue> Values(const std::string& top) const override {
    return {{.name = top, .value = static_cast<double>(predicted_.size())}};
  }

 private:
  std::set<float> predicted_;
};

}  // namespace

EvaluatorRow CoverageEvaluatorRow() {
  return {"ArgMax", [](const LayerParameter& /*layer*/, const EvaluatorOptions& /*options*/) {
            return std::unique_ptr<Evaluator>(std::make_unique<CoverageEvaluator>());
          }};
}

}  // namespace moka
