// Resolves which nets a solver trains and tests, in Caffe's order of precedence, relative to the solver's folder, and
// merges their states of phase, level and stage.
#include "proto/nets/solver_file.h"

#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "proto/nets/filter.h"
#include "proto/text/places.h"
#include "proto/text/text_format.h"
#include "proto/text/text_slips.h"
#include "proto/upgrade/upgrade.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Nets written inside the solver get what ReadNet does for files.
NetParameter InnerNet(const NetParameter& inner, const SolverParameter& solver, const NetReadOptions& options) {
  return FinishNet(inner, solver.origin().file(), options);
}

// Phase, then the net's own state, then the solver's for it: later ones win, stages add up.
NetState MergedState(Phase phase, const NetParameter& net, const NetState* own) {
  NetState state;
  state.set_phase(phase);
  AddState(net.state(), state);
  if (own != nullptr) AddState(*own, state);
  return state;
}

// Stages and a level that the solver gives a net whose rules do not ask for them.
void WarnOfStages(const NetParameter& net, const NetState& given, const SolverParameter& solver,
                  const std::string& field) {
  WarnOfUnknownStages(net, given, PlaceOf(solver, field).ToString());
  WarnOfUselessLevel(net, given, PlaceOf(solver, field + ".level").ToString());
}

NetParameter TrainNet(const SolverParameter& solver, const NetReadOptions& options,
                      const TrainTurn& turn = TrainTurn::default_instance()) {
  NetState given = solver.train_state();
  for (const std::string& stage : turn.stage()) given.add_stage(stage);
  if (turn.has_net()) {
    const NetParameter net = ReadNet(ResolveBeside(solver, turn.net(), "turn"), options);
    WarnOfStages(net, given, solver, "turn");
    return FilterNet(net, MergedState(TRAIN, net, &given));
  }
  const int sources = int{solver.has_net()} + int{solver.has_net_param()} + int{solver.has_train_net()} +
                      int{solver.has_train_net_param()};
  if (sources != 1) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, sources > 1 ? "train_net" : ""),
                StrCat("the solver names ", sources,
                       " train nets, expected one of net, net_param, train_net, train_net_param"));
  }
  NetParameter net;
  if (solver.has_net() || solver.has_train_net()) {
    net = ReadNet(ResolveBeside(solver, solver.has_net() ? solver.net() : solver.train_net(),
                                solver.has_net() ? "net" : "train_net"),
                  options);
  } else {
    net = InnerNet(solver.has_net_param() ? solver.net_param() : solver.train_net_param(), solver, options);
  }
  WarnOfStages(net, given, solver, "train_state");
  return FilterNet(net, MergedState(TRAIN, net, &given));
}

// Layers that change with the course of the training learn how long it is.
void TellLength(const SolverParameter& solver, NetParameter& net) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "AssistedExcitation" || layer.assisted_excitation_param().has_max_iter()) continue;
    layer.mutable_assisted_excitation_param()->set_max_iter(std::max<int64_t>(solver.max_iter(), 0));
  }
}

}  // namespace

SolverParameter SolverFromText(std::string_view text, const std::string& file, const SolverReadOptions& options) {
  SolverParameter solver;
  ParseText(text, file, solver);
  const bool was_old = UpgradeSolver(solver, file);
  const std::vector<AppliedOverride> applied = ApplyOverrides(options.overrides, solver);
  // An override's type takes the place of the solver_type of an old file, which was upgraded to a type above.
  if (was_old && solver.has_solver_type() && !IsOverridden(PlaceOf(solver, "type"))) solver.clear_type();
  UpgradeSolver(solver, file);
  if (options.applied != nullptr) options.applied->insert(options.applied->end(), applied.begin(), applied.end());
  return solver;
}

SolverParameter ReadSolver(const fs::path& path, const SolverReadOptions& options) {
  return SolverFromText(ReadTextFile(path, "a solver"), path.string(), options);
}

std::string SolverToText(const SolverParameter& solver) { return ToText(solver); }

fs::path ResolveBeside(const SolverParameter& solver, std::string_view name, std::string_view field) {
  fs::path path(name);
  std::error_code ignored;
  if (path.is_absolute()) return path;
  fs::path beside = fs::path(solver.origin().file()).parent_path() / path;
  if (fs::exists(beside, ignored)) return beside;
  if (fs::exists(path, ignored)) return path;
  std::vector<std::string> names;
  const fs::path folder = beside.has_parent_path() ? beside.parent_path() : fs::path(".");
  if (fs::is_directory(folder, ignored)) {
    for (const fs::path& file : ListFiles(folder, path.extension().string())) names.push_back(file.filename().string());
  }
  const bool one_place = beside == path;
  const std::string path_hint = PathHint(name);
  throw Error(ErrorKind::kNoInput, PlaceOf(solver, field),
              StrCat("file \"", path.string(), "\" does not exist",
                     one_place ? "" : StrCat(", nor does \"", beside.string(), "\"")),
              path_hint.empty() ? DidYouMean(path.filename().string(), names) : path_hint);
}

std::vector<NetParameter> ReadTestNets(const SolverParameter& solver, const NetReadOptions& options, bool has_spoken) {
  const int named = solver.test_net_param_size() + solver.test_net_size();
  const bool has_generic = solver.has_net() || solver.has_net_param();
  if (has_generic ? solver.test_iter_size() < named : solver.test_iter_size() != named) {
    throw Error(ErrorKind::kConfig,
                PlaceOf(solver, solver.test_iter_size() > 0  ? "test_iter[0]"
                                : solver.test_net_size() > 0 ? "test_net[0]"
                                                             : "test_net_param[0]"),
                StrCat("the solver has ", named, " test nets but ", solver.test_iter_size(), " test_iter"),
                "give one test_iter a test net");
  }
  const int tests = solver.test_iter_size();
  if (tests > 0 && solver.test_interval() <= 0) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, solver.has_test_interval() ? "test_interval" : "test_iter[0]"),
                solver.has_test_interval()
                    ? StrCat("test_interval is ", solver.test_interval(), ", expected at least 1")
                    : "test_iter is given and test_interval, the iterations from test to test, is not",
                "leave out test_iter and test_interval to train without tests");
  }
  if (solver.test_state_size() > 0 && solver.test_state_size() != tests) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "test_state[0]"),
                StrCat("the solver has ", tests, " test nets but ", solver.test_state_size(), " test_state"),
                "give none, or one a test net");
  }
  std::vector<NetParameter> nets;
  for (int i = 0; i < tests; ++i) {
    NetParameter net;
    std::optional<QuietScope> quiet;
    if (i >= named && std::exchange(has_spoken, true)) quiet.emplace();
    if (i < solver.test_net_param_size()) {
      net = InnerNet(solver.test_net_param(i), solver, options);
    } else if (i < named) {
      const int at = i - solver.test_net_param_size();
      net = ReadNet(ResolveBeside(solver, solver.test_net(at), StrCat("test_net[", at, "]")), options);
    } else if (solver.has_net_param()) {
      net = InnerNet(solver.net_param(), solver, options);
    } else {
      net = ReadNet(ResolveBeside(solver, solver.net(), "net"), options);
    }
    quiet.reset();
    if (solver.test_state_size() > 0) WarnOfStages(net, solver.test_state(i), solver, StrCat("test_state[", i, "]"));
    nets.push_back(
        FilterNet(net, MergedState(TEST, net, solver.test_state_size() > 0 ? &solver.test_state(i) : nullptr)));
  }
  return nets;
}

SolverNets ReadSolverNets(const SolverParameter& solver, const NetReadOptions& options) {
  SolverNets nets;
  for (const TrainTurn& turn : solver.turn()) nets.turns.push_back(TrainNet(solver, options, turn));
  nets.train = nets.turns.empty() ? TrainNet(solver, options) : nets.turns.front();
  TellLength(solver, nets.train);
  for (NetParameter& net : nets.turns) TellLength(solver, net);
  const bool has_spoken = solver.turn_size() == 0 ||
                          std::ranges::any_of(solver.turn(), [](const TrainTurn& turn) { return !turn.has_net(); });
  nets.tests = ReadTestNets(solver, options, has_spoken);
  return nets;
}

}  // namespace moka
