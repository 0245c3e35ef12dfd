#include "tools/net_check.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "data/shape_guess.h"
#include "layers/net.h"
#include "optim/lr_policy.h"
#include "tools/shape_search.h"

namespace moka {
namespace {

constexpr size_t kMaxPairedStages = 8;

using Stages = std::set<std::string>;

std::set<Stages> StageSets(const std::vector<NetStateRule>& rules) {
  Stages all;
  std::set<Stages> sets = {{}};
  for (const NetStateRule& rule : rules) {
    all.insert(rule.stage().begin(), rule.stage().end());
    all.insert(rule.not_stage().begin(), rule.not_stage().end());
    sets.insert(Stages(rule.stage().begin(), rule.stage().end()));
  }
  for (const std::string& one : all) {
    sets.insert({one});
    if (all.size() > kMaxPairedStages) continue;
    for (const std::string& other : all) sets.insert({one, other});
  }
  return sets;
}

// Tops of which a dimension stands neither in the layer nor in what the user gave.
std::vector<std::pair<std::string, Shape>> AssumedTops(const std::vector<DataLayer>& data, const TopShapes& given,
                                                       const TopShapes& found) {
  std::vector<std::pair<std::string, Shape>> assumed;
  for (const DataLayer& layer : data) {
    const bool has_guess = layer.param.type() != "Input" && !GuessTypes(layer.param).assumed.empty();
    for (size_t i = 0; i < layer.tops.size(); ++i) {
      const std::string& top = layer.tops[i];
      const bool is_open = found.contains(top) || layer.param.bottom_size() > 0 || (i == 0 && has_guess);
      if (given.contains(top) || !is_open) continue;
      assumed.emplace_back(top, layer.types[i].shape);
    }
  }
  return assumed;
}

std::string PythonName(const PythonParameter& p) { return StrCat(p.module(), ".", p.layer()); }

std::vector<std::string> Names(const std::set<std::string>& names) { return {names.begin(), names.end()}; }

StateCheck CheckOnce(const NetParameter& net, const NetState& state, const TopShapes& given, const TopShapes& shapes) {
  StateCheck check;
  check.phase = state.phase();
  check.stages.assign(state.stage().begin(), state.stage().end());
  try {
    NetOptions options = LookingOptions(state, shapes);
    options.data_types = [&check, types = options.data_types](const LayerParameter& layer) {
      if (layer.type() == "Python") check.elsewhere.insert(PythonName(layer.python_param()));
      return types(layer);
    };
    const BuiltNet built = BuildNet(net, options);
    check.layers = built.param.layer_size();
    for (const NetBlob& blob : built.blobs) {
      if (blob.shared) continue;
      (blob.role == ParameterRole::kStatistic ? check.statistics : check.parameters) += blob.shape.Count();
    }
    for (const auto& [name, value] : built.trace) check.tops.emplace_back(name, built.graph.shape(value));
    check.assumed = AssumedTops(built.data, given, shapes);
  } catch (const Error& error) {
    check.error = error.what();
    if (!check.elsewhere.empty()) {
      check.error += StrCat("\n(the shapes of what the Python layers ", Join(Names(check.elsewhere), ", "),
                            " make were guessed: they are not built in)");
    }
  }
  return check;
}

}  // namespace

std::vector<NetState> DeclaredStates(const NetParameter& net) {
  std::vector<NetStateRule> rules;
  for (const LayerParameter& layer : net.layer()) {
    rules.insert(rules.end(), layer.include().begin(), layer.include().end());
    rules.insert(rules.end(), layer.exclude().begin(), layer.exclude().end());
  }
  std::set<Phase> phases;
  for (const NetStateRule& rule : rules) {
    if (rule.has_phase()) phases.insert(rule.phase());
  }
  if (net.state().has_phase()) phases = {net.state().phase()};
  if (phases.empty()) phases = {TRAIN, TEST};
  std::vector<NetState> states;
  for (const Phase phase : phases) {
    for (const Stages& stages : StageSets(rules)) {
      NetState state = net.state();
      state.set_phase(phase);
      for (const std::string& stage : stages) state.add_stage(stage);
      states.push_back(std::move(state));
    }
  }
  return states;
}

StateCheck CheckNet(const NetParameter& net, const NetState& state, const std::map<std::string, Shape>& shapes) {
  StateCheck check = CheckOnce(net, state, shapes, shapes);
  if (check.error.empty()) return check;
  const std::optional<TopShapes> found = FindShapes(net, state, shapes);
  if (!found) return check;
  StateCheck again = CheckOnce(net, state, shapes, *found);
  return again.error.empty() ? again : check;
}

std::vector<std::pair<int64_t, double>> RateCurve(const SolverParameter& solver, int points) {
  CheckLrPolicy(solver);
  const int64_t end = std::max(solver.max_iter(), 1);
  std::set<int64_t> iterations = {0, 1};
  for (int i = 1; i <= points; ++i) iterations.insert(end * i / points);
  std::vector<std::pair<int64_t, double>> curve;
  for (const int64_t iteration : iterations) curve.emplace_back(iteration, LearningRate(solver, iteration));
  return curve;
}

}  // namespace moka
