// Where the models that a server is to have come from: runs, models' folders, and folders MODEL/VERSION/... of several.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/serve/model/model_settings.h"

namespace moka {

// Where a model comes from.
struct ModelHome {
  std::string word;               // a run, a model's folder, zoo:NAME, ...
  bool is_in_repository = false;  // MODEL of a folder of models, which may hold versions
};

// A version of a model and where it comes from, a word as of ModelHome.
struct ModelPlace {
  std::string word;
  int64_t version = 1;  // the number of its folder
};

// The models that a server is to have, by name, and the folders MODEL/VERSION/... in which there may be more later.
struct ModelPlaces {
  std::map<std::string, ModelHome> models = {};
  std::vector<std::string> folders = {};
};

// A name that may stand in an address: of letters, digits, '.', '_' and '-', at most 128.
std::string ServedName(const std::string& word);
// The version of a folder of that name: a number of at most nine digits, from 1; 0 for another name.
int64_t VersionNamed(const std::string& name);
// The models of words of a command line: each a model, or a folder MODEL/VERSION/... of several. The first are called
// by `names`. Errors: kUsage for two of one name and for names that no address may hold, kNoInput for a folder without
// models.
ModelPlaces PlacesOf(const std::vector<std::string>& words, const std::vector<std::string>& names);

// The model in a folder of models that is served by that name; nothing: there is none.
std::optional<std::string> ModelServedAs(const std::string& name, const std::filesystem::path& folder);
// Whether a folder is a model, or holds versions of one.
bool HoldsModel(const std::filesystem::path& folder);
// The versions of a model that the policy chooses of those that are there now, ascending; where it names versions, all
// that it names. Errors: kNoInput for a model without any.
std::vector<ModelPlace> ChosenPlaces(const ModelHome& home, const VersionPolicy& policy);
// The place of one version of a model in a folder of models.
ModelPlace PlaceOfVersion(const ModelHome& home, int64_t version);
// The model's serve.pbtxt, whether it is there or not. `runs`: where runs lie.
std::filesystem::path SettingsFileOf(const ModelHome& home, const std::filesystem::path& runs);

}  // namespace moka
