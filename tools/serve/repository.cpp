// A model is replaced by one pointer: requests hold the version that they began with.
#include "tools/serve/repository.h"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/files/file_tree.h"

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

// The number that a folder is called; nothing for another name.
std::optional<int64_t> VersionOf(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return IsVersion(name) ? std::optional(std::stoll(name)) : std::nullopt;
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

// A model of a repository: its newest version.
std::optional<ModelPlace> NewestOf(const fs::path& folder) {
  std::optional<ModelPlace> newest;
  int64_t highest = 0;
  for (const fs::path& version : FoldersIn(folder)) {
    const std::optional<int64_t> number = VersionOf(version);
    if (!number || *number <= highest || !IsModelFolder(version)) continue;
    highest = *number;
    newest = ModelPlace{version.string(), StrCat(*number), folder.string()};
  }
  if (!newest && IsModelFolder(folder)) newest = ModelPlace{folder.string()};
  return newest;
}

void AddPlace(const std::string& name, const ModelPlace& place, std::map<std::string, ModelPlace>& places) {
  const auto [at, is_new] = places.emplace(name, place);
  if (is_new) return;
  throw Error(ErrorKind::kUsage, {},
              StrCat(Printable(place.word), " and ", Printable(at->second.word), " would both be the model ", name),
              "--name calls them otherwise");
}

}  // namespace

bool IsVersion(const std::string& name) {
  return !name.empty() && name.size() < 10 && name[0] != '0' &&
         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view NameOf(ModelState state) {
  switch (state) {
    case ModelState::kLoading: return "LOADING";
    case ModelState::kReady: return "READY";
    case ModelState::kUnloading: return "UNLOADING";
    case ModelState::kUnavailable: return "UNAVAILABLE";
  }
  return "";
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
      AddPlace(name, {word}, places.models);
      continue;
    }
    if (i < names.size())
      throw Error(ErrorKind::kUsage, StrCat("--name: ", Printable(word), " holds models with names of their own"));
    places.folders.push_back(word);
    size_t found = 0;
    for (const fs::path& folder : FoldersIn(word)) {
      const std::optional<ModelPlace> place = NewestOf(folder);
      if (!place) {
        LogWarning(StrCat(Printable(folder.string()), " holds no model and is left out"));
        continue;
      }
      AddPlace(ServedName(folder.filename().string()), *place, places.models);
      ++found;
    }
    if (found > 0) continue;
    throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(word), " holds no model"),
                "expected a run, a model's folder, or folders MODEL/VERSION of such, VERSION a number");
  }
  return places;
}

ModelRepository::ModelRepository(ModelPlaces places, Loader loader)
    : loader_(std::move(loader)), folders_(std::move(places.folders)) {
  for (auto& [name, place] : places.models) entries_[name].place = std::move(place);
}

void ModelRepository::FindNew(const std::string& name) {
  std::error_code failed;
  if (entries_.contains(name) || name != ServedName(name)) return;
  for (const std::string& folder : folders_) {
    const fs::path model = fs::path(folder) / name;
    const std::optional<ModelPlace> place = fs::is_directory(model, failed) ? NewestOf(model) : std::nullopt;
    if (!place) continue;
    Entry& entry = entries_[name];
    entry.place = *place;
    entry.is_wanted = false;  // until it is loaded
    return;
  }
}

const ModelRepository::Entry& ModelRepository::EntryOf(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, entry] : entries_) names.push_back(known);
  const std::string near = DidYouMean(name, names);
  throw Error(ErrorKind::kNoInput, {}, StrCat("there is no model \"", Printable(name), "\""),
              near.empty() ? StrCat("there are ", Join(names, ", ")) : near);
}

ModelRepository::Entry& ModelRepository::EntryOf(const std::string& name) {
  return const_cast<Entry&>(std::as_const(*this).EntryOf(name));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

void ModelRepository::Load(const std::string& name) { LoadVersion(name, {}); }

void ModelRepository::LoadVersion(const std::string& name, const std::string& version) {
  LoadFrom(name, version);
  // The model before leaves holes in as many heaps as there are threads; of 300 loads under load they held 80 MiB.
  malloc_trim(0);
}

void ModelRepository::LoadFrom(const std::string& name, const std::string& version) {
  const std::lock_guard one(loading_);
  ModelPlace place;
  {
    const std::lock_guard lock(mutex_);
    FindNew(name);
    Entry& entry = EntryOf(name);
    const bool is_old = !version.empty() && entry.model && std::stoll(version) <= std::stoll(entry.place.version);
    if (is_old) return;
    entry.state = ModelState::kLoading;
    entry.reason.clear();
    place = entry.place;
  }
  try {
    if (!version.empty()) {
      const std::string folder = place.folder.empty() ? place.word : place.folder;  // a model that had no versions yet
      place = {StrCat(folder, "/", version), version, folder};
    } else if (!place.folder.empty()) {
      place = NewestOf(place.folder).value_or(place);
    }
    std::shared_ptr<ServedModel> model =
        loader_(name, place);  // at the end the one before, which ends without the lock
    const std::lock_guard lock(mutex_);
    Entry& entry = EntryOf(name);
    std::swap(entry.model, model);
    entry.place = place;
    entry.is_wanted = true;
    entry.state = ModelState::kReady;
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    Entry& entry = EntryOf(name);
    entry.state = entry.model ? ModelState::kReady : ModelState::kUnavailable;
    entry.reason = error.what();
    throw;
  }
}

void ModelRepository::Unload(const std::string& name) {
  const std::lock_guard one(loading_);
  std::shared_ptr<ServedModel> ended;  // without the lock
  const std::lock_guard lock(mutex_);
  Entry& entry = EntryOf(name);
  std::swap(entry.model, ended);
  entry.state = ModelState::kUnavailable;
  entry.reason = "unloaded";
  entry.is_wanted = false;
}

std::shared_ptr<ServedModel> ModelRepository::Find(const std::string& name, const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const Entry& entry = EntryOf(name);
  if (!version.empty() && version != entry.place.version) {
    throw Error(ErrorKind::kNoInput, {}, StrCat("model \"", name, "\" has no version \"", Printable(version), "\""),
                StrCat("it has ", entry.place.version));
  }
  return entry.model;
}

std::vector<IndexedModel> ModelRepository::Index() const {
  const std::lock_guard lock(mutex_);
  std::vector<IndexedModel> index;
  for (const auto& [name, entry] : entries_) index.push_back({name, entry.place.version, entry.state, entry.reason});
  return index;
}

std::vector<std::shared_ptr<ServedModel>> ModelRepository::Ready() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> ready;
  for (const auto& [name, entry] : entries_) {
    if (entry.model) ready.push_back(entry.model);
  }
  return ready;
}

bool ModelRepository::IsReady() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(entries_,
                             [](const auto& one) { return one.second.model != nullptr || !one.second.is_wanted; });
}

}  // namespace moka
