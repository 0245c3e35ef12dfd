// Reads an entry's card, solvers and nets through the same readers as a user's own.
#include "tools/zoo/entry.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "proto/nets/filter.h"
#include "proto/nets/model_card.h"
#include "proto/nets/net_file.h"
#include "proto/text/overrides.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/zoo_weights.h"
#include "tools/train/overrides.h"

namespace moka {

namespace fs = std::filesystem;

fs::path ModelsFolder(const Arguments& arguments) {
  if (arguments.Has("models")) {
    const fs::path given = arguments.Get("models");
    if (!HoldsModels(given)) {
      throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(given.string()), " holds no models"),
                  "it must be a folder of folders with a model.prototxt each");
    }
    return given;
  }
  return ModelsFolderHere();
}

std::string EntryNameOf(const fs::path& models, const std::string& name) {
  const fs::path given = name;
  std::string plain = (given.has_filename() ? given : given.parent_path()).filename().string();
  const std::vector<std::string> names = ModelNames(models);
  if (!std::ranges::binary_search(names, plain)) {
    throw Error(ErrorKind::kNoInput, {}, StrCat("no model \"", Printable(name), "\" in ", models.string()),
                DidYouMean(plain, names));
  }
  return plain;
}

ZooEntry ReadEntry(const fs::path& models, const std::string& name) {
  ZooEntry entry{EntryNameOf(models, name), {}, {}};
  entry.folder = models / entry.name;
  entry.card = ReadModelCard(entry.folder / kModelCardFile);
  if (entry.card.recipe_size() == 0) entry.card.add_recipe();
  return entry;
}

RecipeNets ReadRecipe(const ZooEntry& entry, const ZooRecipe& recipe, const std::vector<std::string>& more) {
  const SplitOverrides split = SplitByTarget(Layered({recipe.override().begin(), recipe.override().end()}, more));
  RecipeNets read;
  SolverReadOptions solver_options;
  solver_options.overrides = split.solver;
  read.solver = ReadSolver(entry.folder / recipe.solver(), solver_options);
  NetReadOptions net_options;
  net_options.overrides = split.net;
  read.nets = ReadSolverNets(read.solver, net_options);
  return read;
}

std::vector<NetParameter> TrainNetsOf(const RecipeNets& recipe) {
  return recipe.nets.turns.empty() ? std::vector{recipe.nets.train} : recipe.nets.turns;
}

std::vector<std::string> TrainingWords(const ZooEntry& entry, const ZooRecipe& recipe,
                                       const std::vector<std::string>& more) {
  std::vector<std::string> words = {StrCat("--solver=", (entry.folder / recipe.solver()).string())};
  for (std::string& text : Layered({recipe.override().begin(), recipe.override().end()}, more))
    words.push_back(std::move(text));
  return words;
}

NetParameter ReadDeployed(const ZooEntry& entry) {
  NetState state;
  state.set_phase(TEST);
  state.add_stage("deploy");
  std::error_code code;
  const fs::path own = entry.folder / "deploy.prototxt";
  if (fs::is_regular_file(own, code)) return FilterNet(ReadNet(own), state);
  const ZooRecipe& recipe = entry.card.recipe(0);
  const SplitOverrides split = SplitByTarget({recipe.override().begin(), recipe.override().end()});
  SolverReadOptions solver_options;
  solver_options.overrides = split.solver;
  const SolverParameter solver = ReadSolver(entry.folder / recipe.solver(), solver_options);
  if (!solver.has_net()) {
    throw Error(ErrorKind::kConfig, {}, StrCat(entry.name, " has no deploy.prototxt, and its solver no net"),
                "inference reads one of them");
  }
  NetReadOptions net_options;
  net_options.overrides = split.net;
  return FilterNet(ReadNet(ResolveBeside(solver, solver.net(), "net"), net_options), state);
}

EntryStatus StatusOf(const ModelCard& card) {
  const auto is_trained = [](const ZooRecipe& recipe) { return recipe.result_size() > 0; };
  if (std::ranges::any_of(card.recipe(), is_trained)) return EntryStatus::kTrained;
  if (OwnWeightsOf(card) != nullptr) return EntryStatus::kTrained;
  return card.weights_size() > 0 ? EntryStatus::kConverted : EntryStatus::kRecipeOnly;
}

std::string_view Describe(EntryStatus status) {
  switch (status) {
    case EntryStatus::kTrained: return "trained here";
    case EntryStatus::kConverted: return "converted";
    default: return "recipe only";
  }
}

std::string_view TaskName(ModelCard::Task task) {
  switch (task) {
    case ModelCard::DETECT: return "object detection";
    case ModelCard::INSTANCES: return "instance segmentation";
    case ModelCard::SEGMENT: return "segmentation";
    case ModelCard::TRANSLATE: return "translation";
    case ModelCard::ANSWER: return "question answering";
    case ModelCard::GENERATE: return "generation";
    case ModelCard::REGRESS: return "regression";
    case ModelCard::EMBED: return "embedding";
    default: return "classification";
  }
}

}  // namespace moka
