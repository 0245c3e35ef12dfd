#include "optim/turn_scope.h"

#include <algorithm>
#include <set>

#include "core/text.h"

namespace moka {
namespace {

bool IsOfTurn(const TrainTurn& turn, std::string_view layer) {
  return turn.train_size() == 0 ||
         std::ranges::any_of(turn.train(), [&](const std::string& pattern) { return MatchesPattern(pattern, layer); });
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view name) {
  const std::vector<std::string> parts = Split(pattern, '*');
  if (parts.size() == 1) return pattern == name;
  const std::string& first = parts.front();
  const std::string& last = parts.back();
  if (name.size() < first.size() + last.size() || !name.starts_with(first) || !name.ends_with(last)) return false;
  // What lies between stars is found as far left as it can be, which leaves most for the rest.
  name = name.substr(first.size(), name.size() - first.size() - last.size());
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    const size_t found = name.find(parts[i]);
    if (found == std::string_view::npos) return false;
    name.remove_prefix(found + parts[i].size());
  }
  return true;
}

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
