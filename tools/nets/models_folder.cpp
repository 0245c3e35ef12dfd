// The program looks upwards from its own file, so that an archive may be unpacked anywhere and a build needs no path.
#include "tools/nets/models_folder.h"

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "core/text.h"
#include "proto/nets/model_card.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int kMostParents = 6;  // from the program's file up to the folder that holds the models
constexpr const char* kHere = "models";
constexpr const char* kInstalled = "share/moka/models";

bool IsModel(const fs::path& folder) {
  std::error_code code;
  return fs::is_regular_file(folder / kModelCardFile, code) || fs::is_regular_file(folder / "solver.prototxt", code);
}

}  // namespace

bool HoldsModels(const fs::path& folder) { return !ModelNames(folder).empty(); }

std::vector<std::string> ModelNames(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (const fs::directory_entry& each : fs::directory_iterator(folder, code)) {
    if (IsModel(each.path())) names.push_back(each.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::optional<fs::path> FindModelsFolder() {
  if (HoldsModels(kHere)) return kHere;
  std::error_code code;
  fs::path above = fs::read_symlink("/proc/self/exe", code).parent_path();
  for (int i = 0; i < kMostParents && above.has_relative_path(); ++i, above = above.parent_path()) {
    for (const char* place : {kHere, kInstalled}) {
      if (HoldsModels(above / place)) return above / place;
    }
  }
  return std::nullopt;
}

fs::path ModelsFolderHere() {
  const std::optional<fs::path> found = FindModelsFolder();
  if (found) return *found;
  throw Error(
      ErrorKind::kNoInput, {},
      StrCat("no models here (looked in ./", kHere, ", and in ", kHere, " and ", kInstalled, " above the binary)"),
      "moka zoo takes their folder as --models DIR");
}

namespace {

// The folder of "zoo:NAME".
fs::path ModelOfZoo(const std::string& word) {
  const std::string name = word.substr(kZooWord.size());
  const fs::path models = ModelsFolderHere();
  const std::vector<std::string> names = ModelNames(models);
  if (std::ranges::binary_search(names, name)) return models / name;
  throw Error(ErrorKind::kNoInput, {}, StrCat("no model \"", Printable(name), "\" in ", models.string()),
              DidYouMean(name, names));
}

}  // namespace

std::optional<fs::path> FindModel(const std::string& word) {
  if (word.starts_with(kZooWord)) return ModelOfZoo(word);
  const fs::path given = fs::path(word).lexically_normal();
  const fs::path path = given.has_filename() ? given : given.parent_path();  // a shell completes a folder with a "/"
  if (path.empty() || path.is_absolute() || *path.begin() == "..") return std::nullopt;
  const fs::path inner = *path.begin() == kHere ? path.lexically_relative(kHere) : path;
  const std::optional<fs::path> models = FindModelsFolder();
  std::error_code code;
  if (!models || !IsModel(*models / *inner.begin()) || !fs::exists(*models / inner, code)) return std::nullopt;
  return *models / inner;
}

fs::path PathOfWord(const std::string& word) {
  std::error_code code;
  const std::optional<fs::path> model = fs::exists(word, code) ? std::nullopt : FindModel(word);
  return model.value_or(word);
}

}  // namespace moka
