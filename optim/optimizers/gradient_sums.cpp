// One reduce_sum a gradient and a tree of sums over the scalars: a chain would make the graph as deep as there are
// gradients.
#include "optim/optimizers/gradient_sums.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace moka {
namespace {

constexpr size_t kSumWidth = 16;  // values one pointwise node adds: scalars only, so its size does not matter

}  // namespace

// A tree of pointwise nodes.
ValueId SumOfScalars(const GraphBuilder& b, std::vector<ValueId> scalars) {
  while (scalars.size() > 1) {
    std::vector<ValueId> sums;
    for (size_t begin = 0; begin < scalars.size(); begin += kSumWidth) {
      const size_t end = std::min(begin + kSumWidth, scalars.size());
      Term sum = Term::Input(0);
      for (size_t i = begin + 1; i < end; ++i) sum = sum + Term::Input(i - begin);
      sums.push_back(b.Pointwise(sum, {scalars.begin() + static_cast<std::ptrdiff_t>(begin),
                                       scalars.begin() + static_cast<std::ptrdiff_t>(end)}));
    }
    scalars = std::move(sums);
  }
  return scalars.front();
}

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
  return sums.empty() ? kNoId : SumOfScalars(b, std::move(sums));
}

}  // namespace moka
