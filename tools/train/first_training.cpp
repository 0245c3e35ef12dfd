// Makes the words of the first training from those of the second, without what belongs to the second alone.
#include "tools/train/first_training.h"

#include <filesystem>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "proto/nets/solver_file.h"
#include "proto/text/places.h"
#include "tools/train/overrides.h"
#include "tools/train/program_options.h"
#include "tools/train/train_setup.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Lengths, rates and tests of the given words are the second training's.
bool GoesWithFirst(const std::string& override_text) {
  return !SplitByTarget({override_text}).net.empty() || override_text.starts_with("random_seed=");
}

// "solver_linear.prototxt" after "babi": "babi_linear".
std::string FirstRunName(const std::string& name, const fs::path& solver) {
  std::string stem = solver.stem().string();
  if (stem.starts_with("solver_")) stem.erase(0, std::string_view("solver_").size());
  return StrCat(name, "_", stem);
}

}  // namespace

std::optional<Arguments> FirstTrainingOf(const Arguments& arguments) {
  if (LooksInside(arguments)) return std::nullopt;
  for (const char* start : {"from", "weights", "snapshot"}) {
    if (arguments.Has(start)) return std::nullopt;
  }
  const fs::path file = SolverFileOf(arguments);
  if (file.empty()) return std::nullopt;
  const RunChoice choice = ChooseRun(arguments);
  if (!choice.resumed.empty()) return std::nullopt;
  SolverReadOptions read;
  read.overrides = SplitByTarget(OverridesOf(arguments)).solver;
  const auto peek = [&] {
    const QuietScope quiet;  // whoever trains it says what it warns of
    return ReadSolver(file, read);
  };
  const SolverParameter solver = peek();
  if (solver.first_solver().empty()) return std::nullopt;
  const fs::path first_file = ResolveBeside(solver, solver.first_solver(), "first_solver");
  const SolverParameter first = ReadSolver(first_file);
  if (!first.first_solver().empty()) {
    throw Error(ErrorKind::kConfig, PlaceOf(first, "first_solver"),
                StrCat("this solver is trained before ", file.string(), " and names one before itself"),
                "a training has one before it at most");
  }
  Arguments words = arguments;
  words.positionals.clear();
  std::vector<std::string> shared = arguments.overrides;
  std::erase_if(shared, [](const std::string& text) { return !GoesWithFirst(text); });
  words.overrides = std::move(shared);
  for (const char* second : {"iterations", "resume", "baseline"}) words.options.erase(second);
  words.options["solver"] = first_file.string();
  words.options["run"] = FirstRunName(choice.name, first_file);
  return words;
}

}  // namespace moka
