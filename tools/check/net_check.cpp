// Builds each net in both phases and in the sets of stages that its rules name (all of them where they are few, pairs
// where they are many), with shapes guessed where data are missing, and collects errors by their places.
#include "tools/check/net_check.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/net/net.h"
#include "layers/shapes/data_guess.h"
#include "optim/optimizers/lr_policy.h"
#include "proto/nets/filter.h"
#include "tools/check/shape_search.h"

namespace moka {
namespace {

// Up to so many stages are tried in all their combinations, and up to so many in pairs.
constexpr size_t kMaxCombinedStages = 4;
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
    if (all.size() <= kMaxCombinedStages) {
      for (Stages more : std::set(sets)) {
        more.insert(one);
        sets.insert(std::move(more));
      }
    } else if (all.size() <= kMaxPairedStages) {
      for (const std::string& other : all) sets.insert({one, other});
    }
    sets.insert({one});
  }
  return sets;
}

// Tops of which a dimension stands neither in the layer nor in what the user gave.
std::vector<std::pair<std::string, Shape>> AssumedTops(const std::vector<DataLayer>& data, const TopShapes& given,
                                                       const TopShapes& found) {
  std::vector<std::pair<std::string, Shape>> assumed;
  for (const DataLayer& layer : data) {
    const bool has_guess = TraitsOf(layer.param).data != DataKind::kInput && !GuessTypes(layer.param).assumed.empty();
    for (size_t i = 0; i < layer.tops.size(); ++i) {
      const std::string& top = layer.tops[i];
      const bool is_open = found.contains(top) || layer.param.bottom_size() > 0 || (i == 0 && has_guess);
      if (given.contains(top) || !is_open) continue;
      assumed.emplace_back(top, layer.types[i].shape);
    }
  }
  return assumed;
}

// InnerProduct layers without num_output whose scores are all that is read of them: the classes are the user's.
std::set<std::string> OpenClasses(const NetParameter& net) {
  std::set<std::string> open;
  for (const LayerParameter& layer : net.layer()) {
    const bool is_open = TraitsOf(layer).is_product && !layer.inner_product_param().has_num_output() &&
                         layer.bottom_size() == 1 && layer.top_size() == 1;
    const auto reads_scores = [&](const LayerParameter& reader) {
      return std::ranges::find(reader.bottom(), layer.top(0)) == reader.bottom().end() || TraitsOf(reader).reads_scores;
    };
    if (is_open && std::ranges::all_of(net.layer(), reads_scores)) open.insert(layer.name());
  }
  return open;
}

NetParameter WithClasses(NetParameter net, const std::set<std::string>& open) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (open.contains(layer.name())) layer.mutable_inner_product_param()->set_num_output(kAssumedClasses);
  }
  return net;
}

// Whether the net has a layer in this state that begins it.
bool HasData(const NetParameter& net, const NetState& state) {
  return std::ranges::any_of(net.layer(), [&](const LayerParameter& layer) {
    return layer.bottom_size() == 0 && layer.top_size() > 0 && TraitsOf(layer).data != DataKind::kParameter &&
           IsPresent(layer, state);
  });
}

// "; the net has data layers for TRAIN only" in TEST; nothing if that is not so.
std::string MissingData(const NetParameter& net, const NetState& state) {
  NetState other = state;
  other.set_phase(state.phase() == TRAIN ? TEST : TRAIN);
  try {
    if (HasData(net, state) || !HasData(net, other)) return "";
  } catch (const Error&) {
    return "";  // rules that contradict themselves are another mistake
  }
  return StrCat("; the net has data layers for ", Phase_Name(other.phase()), " only");
}

// Whether data begins the net in the phase, with some of the sets of stages.
bool IsFed(const NetParameter& net, Phase phase, const std::set<Stages>& stage_sets) {
  NetState state = net.state();
  state.set_phase(phase);
  try {
    return std::ranges::any_of(stage_sets, [&](const Stages& stages) {
      NetState one = state;
      for (const std::string& stage : stages) one.add_stage(stage);
      return HasData(net, one);
    });
  } catch (const Error&) {
    return true;  // rules that contradict themselves are told of when the net is built
  }
}

std::string PythonName(const PythonParameter& p) { return StrCat(p.module(), ".", p.layer()); }

std::vector<std::string> Names(const std::set<std::string>& names) { return {names.begin(), names.end()}; }

StateCheck CheckOnce(const NetParameter& net, const NetState& state, const TopShapes& given, const TopShapes& shapes,
                     const std::set<std::string>& open_classes) {
  StateCheck check;
  check.phase = state.phase();
  check.stages.assign(state.stage().begin(), state.stage().end());
  try {
    NetOptions options = LookingOptions(state, shapes);
    options.data_types = [&check, types = options.data_types](const LayerParameter& layer) {
      if (TraitsOf(layer).runs_python) check.elsewhere.insert(PythonName(layer.python_param()));
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
    for (const LayerParameter& layer : built.param.layer()) {
      if (!open_classes.contains(layer.name())) continue;
      check.open_classes.insert(layer.name());
      check.assumed.emplace_back(layer.top(0), built.graph.shape(built.tops.at(layer.top(0))));
    }
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
  const std::set<Stages> stage_sets = StageSets(rules);
  std::set<Phase> phases = {TRAIN, TEST};
  const auto is_fed = [&](Phase phase) { return IsFed(net, phase, stage_sets); };
  if (std::ranges::any_of(phases, is_fed)) std::erase_if(phases, std::not_fn(is_fed));
  if (net.state().has_phase()) phases = {net.state().phase()};
  std::vector<NetState> states;
  for (const Phase phase : phases) {
    for (const Stages& stages : stage_sets) {
      NetState state = net.state();
      state.set_phase(phase);
      for (const std::string& stage : stages) state.add_stage(stage);
      states.push_back(std::move(state));
    }
  }
  return states;
}

StateCheck CheckNet(const NetParameter& net, const NetState& state, const std::map<std::string, Shape>& shapes) {
  const std::set<std::string> open = OpenClasses(net);
  const NetParameter whole = open.empty() ? net : WithClasses(net, open);
  StateCheck check = CheckOnce(whole, state, shapes, shapes, open);
  if (check.error.empty()) return check;
  const QuietScope quiet;  // the first try has warned
  if (const std::optional<TopShapes> found = FindShapes(whole, state, shapes)) {
    StateCheck again = CheckOnce(whole, state, shapes, *found, open);
    if (again.error.empty()) return again;
  }
  check.error.insert(std::min(check.error.find('\n'), check.error.size()), MissingData(whole, state));
  return check;
}

std::vector<std::pair<int64_t, double>> RateCurve(const SolverParameter& solver, int points) {
  CheckLrPolicy(solver);
  const int64_t end = std::max(solver.max_iter(), 1);
  std::set<int64_t> iterations = {0, 1};
  for (int i = 1; i <= points; ++i) iterations.insert(end * i / points);
  std::vector<std::pair<int64_t, double>> curve;
  curve.reserve(iterations.size());
  for (const int64_t iteration : iterations) curve.emplace_back(iteration, LearningRate(solver, iteration));
  return curve;
}

}  // namespace moka
