// Finds the row by layer type; the rows come from the build.
#include "optim/evaluators/evaluator.h"

#include <algorithm>

namespace moka {
namespace {

const EvaluatorRow* FindEvaluator(std::string_view type) {
  static const std::vector<EvaluatorRow> rows = EvaluatorRows();
  const auto found = std::ranges::find(rows, type, &EvaluatorRow::type);
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

std::unique_ptr<Evaluator> MakeEvaluator(const LayerParameter& layer, const EvaluatorOptions& options) {
  const EvaluatorRow* row = FindEvaluator(layer.type());
  return row == nullptr ? nullptr : row->make(layer, options);
}

bool HasEvaluator(std::string_view type) { return FindEvaluator(type) != nullptr; }

}  // namespace moka
