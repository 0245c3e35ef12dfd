// The trained weights that a model's folder carries, as its card names them (ZooWeights in proto/zoo.proto).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "proto/zoo.pb.h"

namespace moka {

// How `moka zoo pack` calls the file.
inline constexpr const char* kZooWeightsFile = "weights.safetensors";

// A hint where there are no weights.
inline constexpr const char* kGiveWeights =
    "give --weights FILE; `moka zoo list` shows the models that carry theirs, which need none";

// The error where nothing says which weights `net` has; an ONNX file in its place is told as what it is.
Error NoWeightsError(const std::filesystem::path& net);

// The card's row of weights whose file lies in the folder; null where it names none, or only addresses.
const ZooWeights* OwnWeightsOf(const ModelCard& card);

// Errors: kNoInput where a file of the folder is not there; kBadData where its SHA-256, or its size in bytes (if it is
// above 0), is not the card's.
void CheckZooFile(const std::filesystem::path& folder, const std::string& file, const std::string& sha256,
                  int64_t bytes = 0);

// The file of the weights that a model's folder carries, checked with the files beside it; none where its card names
// none. Errors: those of the card and of CheckZooFile.
std::optional<std::filesystem::path> ZooWeightsOf(const std::filesystem::path& folder);

// The folder of the model that a word names: itself where it is a folder with a card, "zoo:NAME", or a model's name.
// None for anything else, as a file or a run. Errors: kNoInput for a "zoo:NAME" that is no model.
std::optional<std::filesystem::path> ModelFolderOf(const std::string& word);

// The weights that the model's folder of a word carries, as ZooWeightsOf; none where the word is no such folder.
std::optional<std::filesystem::path> ZooWeightsOfWord(const std::string& word);

// The models of a folder that carry weights, sorted.
std::vector<std::string> ModelsWithWeights(const std::filesystem::path& models);

// The weights of "zoo:NAME". Errors: as ModelFolderOf and ZooWeightsOf; kNoInput where that model has none, with those
// that have some.
std::filesystem::path ZooWeightsNamed(const std::string& word);

}  // namespace moka
