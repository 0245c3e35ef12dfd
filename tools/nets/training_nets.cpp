// Finds what a word means that names a training: the nets of a folder's solver with turns, or one net in its state.
#include "tools/nets/training_nets.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "proto/nets/filter.h"
#include "proto/nets/solver_file.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The solver of the folder or run that the word names; nothing where it names a file or no solver is there.
std::optional<fs::path> SolverIn(const std::string& config) {
  std::error_code code;
  if (fs::is_regular_file(PathOfWord(config), code)) return {};
  try {
    return FindConfig(config, "solver.prototxt");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoInput) throw;
    return {};
  }
}

}  // namespace

TrainingNets ReadTrainingNets(const std::string& config, const NetReadOptions& read, const NetState& given) {
  const std::optional<fs::path> file = SolverIn(config);
  SolverParameter solver = file ? ReadSolver(*file) : SolverParameter();
  AddState(given, *solver.mutable_train_state());
  if (solver.turn_size() > 0) return {ReadSolverNets(solver, read).turns, {solver.turn().begin(), solver.turn().end()}};
  NetParameter net = ReadNetInState(FindConfig(config, "train_val.prototxt"), read, given);
  AddState(solver.train_state(), *net.mutable_state());
  return {{std::move(net)}, {}};
}

std::vector<NetParameter> ReadNetsIn(const std::string& config, const NetReadOptions& read, const NetState& given) {
  if (given.phase() == TRAIN && !ChoosesLayers(given)) return ReadTrainingNets(config, read, given).nets;
  return {ReadNetInState(FindConfig(config, "train_val.prototxt"), read, given)};
}

std::string NameWithStages(const NetParameter& filtered) {
  const auto& stages = filtered.state().stage();
  return StrCat(filtered.name(), stages.empty() ? "" : ", stage ", Join({stages.begin(), stages.end()}, " and "));
}

}  // namespace moka
