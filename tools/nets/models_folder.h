// Where the zoo's models lie, in a clone or where the program was installed, and the words that name one of them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Before the name of a model, where a path or a run could stand, too: "zoo:lenet".
inline constexpr std::string_view kZooWord = "zoo:";

// Whether a folder holds models: folders with a card or a solver.
bool HoldsModels(const std::filesystem::path& folder);
// The folders of it that are models, sorted; none where there is no such folder.
std::vector<std::string> ModelNames(const std::filesystem::path& folder);

// ./models, else the nearest above the program: models/ of a clone, or share/moka/models of the folder that the program
// was installed or unpacked into.
std::optional<std::filesystem::path> FindModelsFolder();
// The same. Errors: kNoInput naming the places tried.
std::filesystem::path ModelsFolderHere();
// The model or file there that a word names which is no path from here: "lenet", "models/lenet",
// "models/lenet/solver_caffe.prototxt"; "zoo:lenet" is the model alone. Errors: kNoInput for a "zoo:NAME" that is none,
// with the nearest.
std::optional<std::filesystem::path> FindModel(const std::string& word);
// A word as a path: what is there from here, else the model that it names, else the word as it is.
std::filesystem::path PathOfWord(const std::string& word);

}  // namespace moka
