// A folder is a model where it holds a net, and a model of several versions where folders called by numbers do.
#include "tools/serve/model/model_places.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

bool IsModelFolder(const fs::path& folder) {
  std::error_code failed;
  for (const char* file : {"deploy.prototxt", "train_val.prototxt", "config", "net.prototxt"}) {
    if (fs::exists(folder / file, failed)) return true;
  }
  return false;
}

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code failed;
  for (const fs::path& entry : SortedEntries(folder)) {
    const bool is_hidden = entry.filename().string().starts_with('.');
    if (!is_hidden && fs::is_directory(entry, failed)) folders.push_back(entry);
  }
  return folders;
}

// The versions in a folder, ascending.
std::vector<int64_t> VersionsIn(const fs::path& folder) {
  std::vector<int64_t> versions;
  for (const fs::path& entry : FoldersIn(folder)) {
    const std::string name = entry.filename().string();
    const int64_t version = VersionNamed(name);
    const bool is_number = name.find_first_not_of("0123456789") == std::string::npos;
    if (version > 0 && IsModelFolder(entry)) {
      versions.push_back(version);
    } else if (is_number) {
      LogWarningOnce(StrCat(Printable(entry.string()), " is left out: ",
                            version > 0 ? "it holds no model" : "versions are called by numbers from 1 on, as 3"));
    }
  }
  std::ranges::sort(versions);
  return versions;
}

void AddHome(const std::string& name, const ModelHome& home, std::map<std::string, ModelHome>& homes) {
  const auto [at, is_new] = homes.emplace(name, home);
  if (is_new) return;
  throw Error(ErrorKind::kUsage, {},
              StrCat(Printable(home.word), " and ", Printable(at->second.word), " would both be the model ", name),
              "--name calls them otherwise");
}

// Adds the models in a folder of them. Returns how many.
int64_t AddFolder(const std::string& word, std::map<std::string, ModelHome>& homes) {
  int64_t found = 0;
  for (const fs::path& folder : FoldersIn(word)) {
    if (!HoldsModel(folder)) {
      LogWarning(StrCat(Printable(folder.string()), " holds no model and is left out"));
      continue;
    }
    const std::string name = ServedName(folder.filename().string());
    if (name != folder.filename().string()) LogInfo(StrCat(Printable(folder.string()), " is served as model ", name));
    AddHome(name, {folder.string(), true}, homes);
    ++found;
  }
  return found;
}

}  // namespace

int64_t VersionNamed(const std::string& name) {
  const bool is_number = !name.empty() && name.size() < 10 && name[0] != '0' &&
                         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::stoll(name) : 0;
}

std::string ServedName(const std::string& word) {
  constexpr size_t kMostLetters = 128;
  std::string name = word.substr(0, word.find('@'));
  if (const size_t colon = name.find(':'); colon != std::string::npos) name.erase(0, colon + 1);
  while (name.ends_with('/')) name.pop_back();
  fs::path path(name);
  if (path.extension() == ".prototxt") path = path.parent_path();
  if (!path.filename().empty()) name = path.filename().string();
  for (char& c : name) {
    const bool is_plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
    if (!is_plain) c = '-';
  }
  while (name.starts_with('.')) name.erase(0, 1);
  if (name.empty() || name == "stats") name = "model";  // /v2/models/stats is an address of its own
  return name.substr(0, kMostLetters);
}

ModelPlaces PlacesOf(const std::vector<std::string>& words, const std::vector<std::string>& names) {
  ModelPlaces places;
  if (names.size() > words.size()) {
    throw Error(ErrorKind::kUsage, StrCat("--name gives ", Counted(std::ssize(names), "name", "names"), " to ",
                                          Counted(std::ssize(words), "model", "models")));
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string name = i < names.size() ? names[i] : ServedName(word);
    if (name != ServedName(name))
      throw Error(ErrorKind::kUsage, {}, StrCat("--name: ", Printable(name), " is no name for an address"),
                  "letters, digits, '.', '_' and '-'");
    std::error_code failed;
    if (!fs::is_directory(word, failed) || IsModelFolder(word)) {
      AddHome(name, {word}, places.models);
      continue;
    }
    if (i < names.size())
      throw Error(ErrorKind::kUsage, StrCat("--name: ", Printable(word), " holds models with names of their own"));
    places.folders.push_back(word);
    if (AddFolder(word, places.models) > 0) continue;
    throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(word), " holds no model"),
                "expected a run, a model's folder, or folders MODEL/VERSION of such, VERSION a number");
  }
  return places;
}

std::optional<std::string> ModelServedAs(const std::string& name, const fs::path& folder) {
  for (const fs::path& model : FoldersIn(folder)) {
    if (ServedName(model.filename().string()) == name && HoldsModel(model)) return model.string();
  }
  return std::nullopt;
}

bool HoldsModel(const fs::path& folder) {
  std::error_code failed;
  return fs::is_directory(folder, failed) && (IsModelFolder(folder) || !VersionsIn(folder).empty());
}

std::vector<ModelPlace> ChosenPlaces(const ModelHome& home, const VersionPolicy& policy) {
  const std::vector<int64_t> there = home.is_in_repository ? VersionsIn(home.word) : std::vector<int64_t>();
  const bool is_alone = !home.is_in_repository || (there.empty() && IsModelFolder(home.word));
  std::vector<int64_t> chosen = policy.choice == VersionPolicy::Choice::kSpecific && !is_alone
                                    ? policy.specific
                                    : policy.Chosen(is_alone ? std::vector<int64_t>{1} : there);
  if (chosen.empty())
    throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(home.word), " holds no version that is to be served"),
                is_alone ? "it is one model, version 1" : "expected folders called by numbers from 1, each a model");
  std::vector<ModelPlace> places;
  std::error_code failed;
  for (const int64_t version : chosen) {
    places.push_back(is_alone ? ModelPlace{home.word} : PlaceOfVersion(home, version));
    const fs::path unread = fs::path(places.back().word) / kSettingsFile;
    if (!is_alone && fs::exists(unread, failed))
      LogWarning(
          StrCat(Printable(unread.string()), " is not read: it would be for all versions, and stand beside them"));
  }
  return places;
}

ModelPlace PlaceOfVersion(const ModelHome& home, int64_t version) { return {StrCat(home.word, "/", version), version}; }

fs::path SettingsFileOf(const ModelHome& home, const fs::path& runs) {
  const std::optional<NamedRun> run = home.is_in_repository ? std::nullopt : FindNamedRun(home.word, runs);
  fs::path folder = run ? run->folder : home.is_in_repository ? fs::path(home.word) : PathOfWord(home.word);
  if (folder.extension() == ".prototxt") folder = folder.parent_path();
  return folder / kSettingsFile;
}

}  // namespace moka
