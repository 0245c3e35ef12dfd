// Entries of the zoo: folders of models/ with a card, their recipes' solvers and nets, and what inference runs of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/nets/solver_file.h"
#include "proto/zoo.pb.h"
#include "tools/cli/command_line.h"

namespace moka {

struct ZooEntry {
  std::string name;  // of the folder
  std::filesystem::path folder;
  ModelCard card;  // with one recipe, solver.prototxt, where it names none
};

// --models, else the folder that ModelsFolderHere finds (tools/nets/models_folder.h). Errors: kNoInput naming the
// places tried.
std::filesystem::path ModelsFolder(const Arguments& arguments);
// An entry's name as it is, or from its folder as a shell completes it. Errors: kNoInput with the nearest name.
std::string EntryNameOf(const std::filesystem::path& models, const std::string& name);
// Errors: as EntryNameOf; those of ReadModelCard, and kNoInput where there is no card.
ZooEntry ReadEntry(const std::filesystem::path& models, const std::string& name);

// A recipe as `moka train` would read it, `more` behind its own overrides. Errors: as ReadSolver and ReadSolverNets.
struct RecipeNets {
  SolverParameter solver;
  SolverNets nets;
};
RecipeNets ReadRecipe(const ZooEntry& entry, const ZooRecipe& recipe, const std::vector<std::string>& more = {});
// The train net, or those of the solver's turns.
std::vector<NetParameter> TrainNetsOf(const RecipeNets& recipe);
// Returns the words behind `moka train` for it: "--solver=models/x/solver.prototxt", then its overrides and `more`,
// which set anew what they name.
std::vector<std::string> TrainingWords(const ZooEntry& entry, const ZooRecipe& recipe,
                                       const std::vector<std::string>& more);

// The net as inference reads it: deploy.prototxt, or the first recipe's net in stage "deploy"; in its test phase.
// Errors: those of reading.
NetParameter ReadDeployed(const ZooEntry& entry);

// "recipe only" where no recipe has a result here and no weights were converted.
enum class EntryStatus : uint8_t { kRecipeOnly, kTrained, kConverted };
EntryStatus StatusOf(const ModelCard& card);
std::string_view Describe(EntryStatus status);
// "classification", "object detection", ...
std::string_view TaskName(ModelCard::Task task);

}  // namespace moka
