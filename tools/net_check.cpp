#include "tools/net_check.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/error.h"
#include "layers/net.h"
#include "optim/lr_policy.h"
#include "proto/filter.h"
#include "tools/consumer_shapes.h"
#include "tools/net_source.h"

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

// Faster R-CNN's RoIDataLayer without a size: pictures of 600 x 1000 do not fit every net, for PVANet's loader makes
// sides multiples of 32. Gives them 640 x 1056, PVANet's own. False if there is no such layer.
bool FitPictures(NetParameter& net) {
  bool is_changed = false;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "Python" || layer.python_param().layer() != "RoIDataLayer") continue;
    PythonParameter& python = *layer.mutable_python_param();
    const std::string text = python.param_str();
    if (text.find("height") != std::string::npos) continue;
    const std::string size = "'height': 640, 'width': 1056, ";
    const size_t brace = text.find('{');
    python.set_param_str(brace == std::string::npos ? size + text
                                                    : text.substr(0, brace + 1) + size + text.substr(brace + 1));
    is_changed = true;
  }
  return is_changed;
}

StateCheck CheckOnce(const NetParameter& net, const NetState& state, const std::map<std::string, Shape>& shapes) {
  StateCheck check;
  check.phase = state.phase();
  check.stages.assign(state.stage().begin(), state.stage().end());
  try {
    NetOptions options;
    options.state = state;
    options.data_types = GuessDataTypes(shapes);
    options.feeds_python_data = true;
    const BuiltNet built = BuildNet(FilterNet(net, state), options);
    check.layers = built.param.layer_size();
    for (const NetBlob& blob : built.blobs) {
      if (blob.shared) continue;
      (blob.role == ParameterRole::kStatistic ? check.statistics : check.parameters) += blob.shape.Count();
    }
    for (const auto& [name, value] : built.trace) check.tops.emplace_back(name, built.graph.shape(value));
  } catch (const Error& error) {
    check.error = error.what();
  }
  return check;
}

// The check of a net for which shapes of its data tops were found that its readers take; none if there are no such.
std::optional<StateCheck> CheckFitted(const NetParameter& net, const NetState& state,
                                      const std::map<std::string, Shape>& shapes) {
  const TryNet build = [&](const NetParameter& part, const TopShapes& tops) -> std::optional<TopShapes> {
    NetOptions options;
    options.state = state;
    options.data_types = GuessDataTypes(tops);
    options.feeds_python_data = true;
    try {
      const BuiltNet built = BuildNet(part, options);
      TopShapes blobs;
      for (const auto& [name, value] : built.tops) blobs[name] = built.graph.shape(value);
      return blobs;
    } catch (const Error&) {
      return std::nullopt;  // the first check has told what is wrong
    }
  };
  const std::optional<TopShapes> fitted = ShapesByConsumers(FilterNet(net, state), shapes, build);
  return fitted ? std::optional(CheckOnce(net, state, *fitted)) : std::nullopt;
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
  StateCheck check = CheckOnce(net, state, shapes);
  if (check.error.empty()) return check;
  if (std::optional<StateCheck> fitted = CheckFitted(net, state, shapes)) return *fitted;
  NetParameter resized = net;
  if (!FitPictures(resized)) return check;
  StateCheck again = CheckOnce(resized, state, shapes);
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
