// The rows in order of their names, and the search among them.
#include "optim/optimizers/optimizer.h"

#include <algorithm>

namespace moka {

const std::vector<Optimizer>& Optimizers() {
  static const std::vector<Optimizer> kTable = [] {
    std::vector<Optimizer> rows = OptimizerRows();
    std::ranges::sort(rows, {}, &Optimizer::name);
    return rows;
  }();
  return kTable;
}

const Optimizer* FindOptimizer(std::string_view name) {
  const auto& table = Optimizers();
  const auto it = std::find_if(table.begin(), table.end(), [&](const Optimizer& o) { return o.name == name; });
  return it == table.end() ? nullptr : &*it;
}

}  // namespace moka
