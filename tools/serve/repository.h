// The models that a server has, by name: which of their versions answer, and what state each is in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/model/model_places.h"
#include "tools/serve/model/model_settings.h"
#include "tools/serve/served_model.h"

namespace moka {

enum class ModelState : uint8_t { kLoading, kReady, kUnloading, kUnavailable };
std::string_view NameOf(ModelState state);  // as the protocol has it: "READY"

// A version of a model.
struct IndexedModel {
  std::string name;
  std::string version;  // empty of a model whose versions are not known
  ModelState state = ModelState::kUnavailable;
  std::string reason = {};  // why it is not there
};

// How models are read.
struct ModelLoader {
  // Errors: those of ReadModelSettings.
  std::function<ModelSettings(const ModelHome& home)> settings;
  std::function<std::shared_ptr<ServedModel>(const std::string& name, const ModelPlace& place,
                                             const ModelSettings& settings)>
      load;
};

class ModelRepository {
 public:
  // Reads which versions there are. Errors: those of the loader's settings and of ChosenPlaces.
  ModelRepository(ModelPlaces places, ModelLoader loader);

  // Reads a model's settings, loads the versions that they choose and puts each where the one before was, which ends
  // with the last request that it has; versions that are chosen no more end once all of these are there. In the calling
  // thread. Errors: kNoInput for a name that is not there, with the nearest; those of the loader for the first version
  // that failed, after which all that answered before still does.
  void Load(const std::string& name);
  // The same of one version more. It is left alone where it answers already, and where the settings choose others.
  void LoadVersion(const std::string& name, int64_t version);
  // All versions. Errors: kNoInput.
  void Unload(const std::string& name);

  // Without a version the highest that answers. Null where it is not loaded. Errors: kNoInput for a name that is not
  // there and a version that is not the model's.
  std::shared_ptr<ServedModel> Find(const std::string& name, const std::string& version = {}) const;
  std::vector<IndexedModel> Index() const;
  // The versions that answer, by name and number; of one model where it is named. Errors: kNoInput.
  std::vector<std::shared_ptr<ServedModel>> Ready(const std::string& name = {}) const;
  // Whether of all models that were not unloaded a version answers.
  bool IsReady() const;

 private:
  struct Version {
    ModelPlace place;
    std::shared_ptr<ServedModel> model = {};
    ModelState state = ModelState::kUnavailable;
    std::string reason = "not loaded";
  };
  struct Entry {
    ModelHome home;
    std::map<int64_t, Version> versions = {};
    std::string reason = "not loaded";  // of a model without any
    bool is_wanted = true;              // until it is unloaded
  };
  // Loads these, and ends all but `kept` of the others. Requires: loading_ is held.
  void LoadAll(const std::string& name, const std::vector<ModelPlace>& places, const ModelSettings& settings,
               const std::vector<int64_t>& kept);
  void LoadOne(const std::string& name, const ModelPlace& place, const ModelSettings& settings);
  // Makes what was thrown the reason of all versions.
  void KeepReason(const std::string& name, const std::exception& error);
  // Makes an entry of a model that has come into one of the folders. Requires: the lock is held.
  void FindNew(const std::string& name);
  Entry& EntryOf(const std::string& name);
  const Entry& EntryOf(const std::string& name) const;

  ModelLoader loader_;
  mutable std::mutex mutex_;
  std::mutex loading_;  // one at a time: a load takes all cores
  std::map<std::string, Entry> entries_;
  std::vector<std::string> folders_;
};

}  // namespace moka
