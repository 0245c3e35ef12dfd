// Expressions made of expressions: each is built anew, so that what the simplifier can say of it holds.
#include <algorithm>
#include <vector>

#include "core/error.h"
#include "graph/expression.h"
#include "graph/expression_builder.h"

namespace moka {

Expression Expression::Substitute(std::span<const Expression> replacements) const {
  Require(static_cast<int>(replacements.size()) >= input_count(), "Substitute has an expression for every input");
  ExpressionBuilder builder;
  std::vector<int32_t> inputs(replacements.size(), -1);
  for (size_t i = 0; i < replacements.size(); ++i) {
    if (!UsesInput(static_cast<int>(i))) continue;
    Require(replacements[i].results().size() == 1, "Substitute's expressions have one result each");
    inputs[i] = builder.Append(replacements[i])[static_cast<size_t>(replacements[i].results()[0])];
  }
  const std::vector<int32_t> index = builder.Append(*this, inputs);
  std::vector<int32_t> results;
  for (const int32_t result : results_) results.push_back(index[static_cast<size_t>(result)]);
  return builder.Finish(results);
}

Expression Expression::Renumber(std::span<const int> map) const {
  Require(static_cast<int>(map.size()) >= input_count(), "Renumber has a number for every input");
  ExpressionBuilder builder;
  std::vector<int32_t> inputs(map.size(), -1);
  for (size_t i = 0; i < map.size(); ++i) {
    if (UsesInput(static_cast<int>(i))) inputs[i] = builder.Input(map[i]);
  }
  const std::vector<int32_t> index = builder.Append(*this, inputs);
  std::vector<int32_t> results;
  for (const int32_t result : results_) results.push_back(index[static_cast<size_t>(result)]);
  return builder.Finish(results);
}

Expression Expression::Select(std::span<const int> results) const {
  ExpressionBuilder builder;
  const std::vector<int32_t> index = builder.Append(*this);
  std::vector<int32_t> kept;
  for (const int result : results) {
    Require(result >= 0 && static_cast<size_t>(result) < results_.size(), "Select names results there are");
    kept.push_back(index[static_cast<size_t>(results_[static_cast<size_t>(result)])]);
  }
  return builder.Finish(kept);
}

Expression Expression::Join(std::span<const Expression> parts) {
  ExpressionBuilder builder;
  std::vector<int32_t> results;
  for (const Expression& part : parts) {
    const std::vector<int32_t> index = builder.Append(part);
    for (const int32_t result : part.results_) results.push_back(index[static_cast<size_t>(result)]);
  }
  return builder.Finish(results);
}

}  // namespace moka
