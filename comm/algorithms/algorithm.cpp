// The list of algorithms is the build's rows, sorted once so that tables and messages have one order. The two common
// refusals are here, as most algorithms share one of them.
#include "comm/algorithms/algorithm.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {

std::string RefuseNone(const Arrangement& /*arrangement*/) { return {}; }

std::string RefuseGroups(const Arrangement& arrangement) {
  if (arrangement.group >= 1 && arrangement.ranks % arrangement.group == 0) return {};
  return StrCat("groups of ", arrangement.group, " do not divide ", arrangement.ranks, " ranks");
}

std::span<const AllReduceAlgorithm> AllReduceAlgorithms() {
  static const std::vector<AllReduceAlgorithm> algorithms = [] {
    std::vector<AllReduceAlgorithm> rows = AllReduceRows();
    std::ranges::sort(rows, {}, &AllReduceAlgorithm::name);
    return rows;
  }();
  return algorithms;
}

const AllReduceAlgorithm& FindAllReduce(std::string_view name) {
  const std::span<const AllReduceAlgorithm> all = AllReduceAlgorithms();
  const auto it = std::ranges::find(all, name, &AllReduceAlgorithm::name);
  if (it != all.end()) return *it;
  std::vector<std::string> names;
  for (const AllReduceAlgorithm& algorithm : all) names.emplace_back(algorithm.name);
  const std::string near = DidYouMean(name, names);
  throw Error(ErrorKind::kConfig, SourcePlace{}, StrCat("unknown all-reduce algorithm \"", Printable(name), "\""),
              near.empty() ? StrCat("known are ", Join(names, ", ")) : near);
}

}  // namespace moka
