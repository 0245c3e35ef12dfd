// A version is replaced by one pointer: requests hold the one that they began with.
#include "tools/serve/repository.h"

#include <malloc.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

std::vector<int64_t> NumbersOf(const std::vector<ModelPlace>& places) {
  std::vector<int64_t> numbers;
  numbers.reserve(places.size());
  for (const ModelPlace& place : places) numbers.push_back(place.version);
  return numbers;
}

}  // namespace

std::string_view NameOf(ModelState state) {
  switch (state) {
    case ModelState::kLoading: return "LOADING";
    case ModelState::kReady: return "READY";
    case ModelState::kUnloading: return "UNLOADING";
    case ModelState::kUnavailable: return "UNAVAILABLE";
  }
  return "";
}

ModelRepository::ModelRepository(ModelPlaces places, ModelLoader loader)
    : loader_(std::move(loader)), folders_(std::move(places.folders)) {
  for (auto& [name, home] : places.models) {
    Entry& entry = entries_[name];
    for (ModelPlace& place : ChosenPlaces(home, loader_.settings(home).versions))
      entry.versions[place.version].place = std::move(place);
    entry.home = std::move(home);
  }
}

void ModelRepository::FindNew(const std::string& name) {
  if (entries_.contains(name) || name != ServedName(name)) return;
  for (const std::string& folder : folders_) {
    const std::optional<std::string> model = ModelServedAs(name, folder);
    if (!model) continue;
    Entry& entry = entries_[name];
    entry.home = {*model, true};
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

void ModelRepository::KeepReason(const std::string& name, const std::exception& error) {
  const std::lock_guard lock(mutex_);
  Entry& entry = EntryOf(name);
  entry.reason = error.what();
  for (auto& [number, version] : entry.versions) version.reason = error.what();
}

void ModelRepository::Load(const std::string& name) {
  const std::lock_guard one(loading_);
  ModelHome home;
  {
    const std::lock_guard lock(mutex_);
    FindNew(name);
    home = EntryOf(name).home;
  }
  ModelSettings settings;
  std::vector<ModelPlace> places;
  try {
    settings = loader_.settings(home);
    places = ChosenPlaces(home, settings.versions);
  } catch (const std::exception& error) {
    KeepReason(name, error);
    throw;
  }
  LoadAll(name, places, settings, NumbersOf(places));
}

void ModelRepository::LoadVersion(const std::string& name, int64_t version) {
  const std::lock_guard one(loading_);
  ModelHome home;
  std::vector<int64_t> there = {version};
  {
    const std::lock_guard lock(mutex_);
    FindNew(name);
    const Entry& entry = EntryOf(name);
    home = entry.home;
    for (const auto& [number, known] : entry.versions) {
      if (!known.model || known.place.word == home.word) continue;  // the latter: a model that had no versions yet
      if (number == version) return;
      there.push_back(number);
    }
  }
  std::ranges::sort(there);
  ModelSettings settings;
  try {
    settings = loader_.settings(home);
  } catch (const std::exception& error) {
    KeepReason(name, error);
    throw;
  }
  const std::vector<int64_t> kept = settings.versions.Chosen(there);
  if (std::ranges::find(kept, version) != kept.end()) LoadAll(name, {PlaceOfVersion(home, version)}, settings, kept);
}

void ModelRepository::LoadAll(const std::string& name, const std::vector<ModelPlace>& places,
                              const ModelSettings& settings, const std::vector<int64_t>& kept) {
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = EntryOf(name);
    for (const ModelPlace& place : places) {
      Version& version = entry.versions[place.version];
      version.state = ModelState::kLoading;
      version.reason.clear();
    }
  }
  std::exception_ptr failed;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {  // first the one that the model's name means
    try {
      LoadOne(name, *place, settings);
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }
  std::vector<std::shared_ptr<ServedModel>> ended;  // without the lock
  if (!failed) {
    const std::lock_guard lock(mutex_);
    std::map<int64_t, Version>& versions = EntryOf(name).versions;
    for (auto it = versions.begin(); it != versions.end();) {
      const auto next = std::next(it);
      if (std::ranges::find(kept, it->first) == kept.end()) {
        ended.push_back(std::move(it->second.model));
        versions.erase(it);
      }
      it = next;
    }
  }
  ended.clear();
  // Versions before leave holes in as many heaps as there are threads; of 300 loads under load they held 80 MiB.
  malloc_trim(0);
  if (failed) std::rethrow_exception(failed);
}

void ModelRepository::LoadOne(const std::string& name, const ModelPlace& place, const ModelSettings& settings) {
  try {
    // At the end the one before, which ends without the lock.
    std::shared_ptr<ServedModel> model = loader_.load(name, place, settings);
    const std::lock_guard lock(mutex_);
    Entry& entry = EntryOf(name);
    Version& version = entry.versions[place.version];
    std::swap(version.model, model);
    version.place = place;
    version.state = ModelState::kReady;
    entry.is_wanted = true;
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    Version& version = EntryOf(name).versions[place.version];
    version.state = version.model ? ModelState::kReady : ModelState::kUnavailable;
    version.reason = error.what();
    throw;
  }
}

void ModelRepository::Unload(const std::string& name) {
  const std::lock_guard one(loading_);
  std::vector<std::shared_ptr<ServedModel>> ended;  // without the lock
  const std::lock_guard lock(mutex_);
  Entry& entry = EntryOf(name);
  for (auto& [number, version] : entry.versions) {
    ended.push_back(std::exchange(version.model, nullptr));
    version.state = ModelState::kUnavailable;
    version.reason = "unloaded";
  }
  entry.is_wanted = false;
}

std::shared_ptr<ServedModel> ModelRepository::Find(const std::string& name, const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const Entry& entry = EntryOf(name);
  if (version.empty()) {
    const auto answers = [](const auto& one) { return one.second.model != nullptr; };
    const auto highest = std::find_if(entry.versions.rbegin(), entry.versions.rend(), answers);
    return highest == entry.versions.rend() ? nullptr : highest->second.model;
  }
  std::vector<std::string> numbers;
  for (const auto& [number, one] : entry.versions) {
    if (StrCat(number) == version) return one.model;
    numbers.push_back(StrCat(number));
  }
  throw Error(ErrorKind::kNoInput, {}, StrCat("model \"", name, "\" has no version \"", Printable(version), "\""),
              StrCat("it has ", Join(numbers, ", ")));
}

std::vector<IndexedModel> ModelRepository::Index() const {
  const std::lock_guard lock(mutex_);
  std::vector<IndexedModel> index;
  for (const auto& [name, entry] : entries_) {
    if (entry.versions.empty()) index.push_back({name, "", ModelState::kUnavailable, entry.reason});
    for (const auto& [number, version] : entry.versions)
      index.push_back({name, StrCat(number), version.state, version.reason});
  }
  return index;
}

std::vector<std::shared_ptr<ServedModel>> ModelRepository::Ready(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (!name.empty()) (void)EntryOf(name);
  std::vector<std::shared_ptr<ServedModel>> ready;
  for (const auto& [known, entry] : entries_) {
    if (!name.empty() && known != name) continue;
    for (const auto& [number, version] : entry.versions) {
      if (version.model) ready.push_back(version.model);
    }
  }
  return ready;
}

bool ModelRepository::IsReady() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(entries_, [](const auto& one) {
    const auto answers = [](const auto& version) { return version.second.model != nullptr; };
    return !one.second.is_wanted || std::ranges::any_of(one.second.versions, answers);
  });
}

}  // namespace moka
