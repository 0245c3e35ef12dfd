// One reduce_sum a gradient and a tree of sums over the scalars: a chain would make the graph as deep as there are
// gradients.
#include "optim/optimizers/gradient_sums.h"

#include <algorithm>
#include <vector>

namespace moka {
namespace {

constexpr size_t kSumWidth = 16;  // values one pointwise node adds: scalars only, so its size does not matter

// Sum of scalars, as a tree of pointwise nodes.
ValueId SumOfTerms(const GraphBuilder& b, std::vector<ValueId> terms) {
  while (terms.size() > 1) {
    std::vector<ValueId> sums;
    for (size_t begin = 0; begin < terms.size(); begin += kSumWidth) {
      const size_t end = std::min(begin + kSumWidth, terms.size());
      Term sum = Term::Input(0);
      for (size_t i = begin + 1; i < end; ++i) sum = sum + Term::Input(i - begin);
      sums.push_back(b.Pointwise(
          sum, {terms.begin() + static_cast<std::ptrdiff_t>(begin), terms.begin() + static_cast<std::ptrdiff_t>(end)}));
    }
    terms = std::move(sums);
  }
  return terms.front();
}

}  // namespace

ValueId SumOverGradients(const GraphBuilder& b, std::span<const ValueId> gradients, const Term& term, ValueId scalar) {
  std::vector<ValueId> sums;
  for (const ValueId g : gradients) {
    if (g == kNoId) continue;
    Ints axes;
    for (int axis = 0; axis < b.shape(g).rank(); ++axis) axes.push_back(axis);
    std::vector<ValueId> inputs = {g};
    if (scalar != kNoId) inputs.push_back(scalar);
    sums.push_back(b.Reshape(Summed(b, term, std::move(axes), std::move(inputs)), Shape{}));
  }
  return sums.empty() ? kNoId : SumOfTerms(b, std::move(sums));
}

}  // namespace moka
