// Layers are chosen by the patterns of TrainTurn.train; assignments of the other layers' statistics are taken out of
// the graph.
#include "optim/step/turn_scope.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/field_path.h"
#include "proto/text/places.h"

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

void CheckTurnLayers(const SolverParameter& solver, const TrainTurn& turn, const std::vector<NetBlob>& blobs) {
  std::vector<std::string> layers;
  for (const NetBlob& blob : blobs) {
    if (layers.empty() || layers.back() != blob.layer) layers.push_back(blob.layer);
  }
  const auto at = std::ranges::find(solver.turn(), turn.name(), &TrainTurn::name) - solver.turn().begin();
  for (int k = 0; k < turn.train_size(); ++k) {
    const std::string& pattern = turn.train(k);
    if (std::ranges::any_of(layers, [&](const std::string& layer) { return MatchesPattern(layer, pattern); })) continue;
    std::string hint = DidYouMean(pattern, layers);
    if (hint.empty()) hint = StrCat("layers with parameters are ", Join(layers, ", "));
    throw Error(ErrorKind::kConfig, PlaceOf(solver, StrCat("turn[", at, "].train[", k, "]")),
                StrCat("turn \"", turn.name(), "\" trains \"", Printable(pattern),
                       "\", which no layer with parameters of its net is called"),
                hint);
  }
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
