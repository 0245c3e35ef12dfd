#include "optim/turn_scope.h"

#include <algorithm>
#include <set>

#include "core/text.h"
#include "proto/field_path.h"

namespace moka {
namespace {

bool IsOfTurn(const TrainTurn& turn, std::string_view layer) {
  return turn.train_size() == 0 ||
         std::ranges::any_of(turn.train(), [&](const std::string& pattern) { return MatchesPattern(layer, pattern); });
}

}  // namespace

std::string ProgramNameOf(const TrainTurn& turn) {
  return turn.name().empty() ? std::string("train") : StrCat("train:", turn.name());
}

std::vector<NetBlob> TrainedInTurn(std::vector<NetBlob> trained, const TrainTurn& turn) {
  std::erase_if(trained, [&](const NetBlob& blob) { return !IsOfTurn(turn, blob.layer); });
  return trained;
}

void KeepOtherStatistics(BuiltNet& net, const TrainTurn& turn) {
  std::set<ValueId> others;
  for (const NetBlob& blob : net.blobs) {
    const bool is_other = blob.role == ParameterRole::kStatistic && !blob.shared && !IsOfTurn(turn, blob.layer);
    if (is_other) others.insert(blob.state);
  }
  std::erase_if(net.graph.assignments(),
                [&](const Assignment& assignment) { return others.contains(assignment.state); });
}

}  // namespace moka
