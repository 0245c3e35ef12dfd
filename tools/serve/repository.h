// The models that a server has, by name: what state each is in, and which version answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/served_model.h"

namespace moka {

enum class ModelState : uint8_t { kLoading, kReady, kUnloading, kUnavailable };
std::string_view NameOf(ModelState state);  // as the protocol has it: "READY"

// Where a model comes from.
struct ModelPlace {
  std::string word;           // a run, a model's folder, zoo:NAME, ...
  std::string version = "1";  // the number of its folder in a repository
  std::string folder = {};    // MODEL of a repository, in which a load looks for the newest version
};

struct IndexedModel {
  std::string name;
  std::string version;
  ModelState state = ModelState::kUnavailable;
  std::string reason = {};  // why it is not there
};

// The models that a server is to have, and the folders MODEL/VERSION/... in which there may be more later.
struct ModelPlaces {
  std::map<std::string, ModelPlace> models = {};
  std::vector<std::string> folders = {};
};

// A name that may stand in an address: of letters, digits, '.', '_' and '-', at most 128.
std::string ServedName(const std::string& word);
// Whether a folder of that name holds a version: a number of at most nine digits, from 1.
bool IsVersion(const std::string& name);
// The models of words of a command line: each a model, or a folder MODEL/VERSION/... of several. The first are called
// by `names`. Errors: kUsage for two of one name and for names that no address may hold, kNoInput for a folder without
// models.
ModelPlaces PlacesOf(const std::vector<std::string>& words, const std::vector<std::string>& names);

class ModelRepository {
 public:
  using Loader = std::function<std::shared_ptr<ServedModel>(const std::string& name, const ModelPlace& place)>;
  ModelRepository(ModelPlaces places, Loader loader);

  // Loads a model, of a folder of models its newest version, and puts it where the one before was, which ends with the
  // last request that it has. In the calling thread. Errors: kNoInput for a name that is not there, with the nearest;
  // those of the loader, after which the one before still answers.
  void Load(const std::string& name);
  // The same of one version, a folder in the model's; one that is not newer than that which answers is left alone.
  void LoadVersion(const std::string& name, const std::string& version);
  // Errors: kNoInput.
  void Unload(const std::string& name);

  // Null where it is not loaded. Errors: kNoInput for a name that is not there and a version that is not the model's.
  std::shared_ptr<ServedModel> Find(const std::string& name, const std::string& version = {}) const;
  std::vector<IndexedModel> Index() const;
  // Those that answer.
  std::vector<std::shared_ptr<ServedModel>> Ready() const;
  // Whether all answer that were not unloaded.
  bool IsReady() const;

 private:
  void LoadFrom(const std::string& name, const std::string& version);

  struct Entry {
    ModelPlace place;
    std::shared_ptr<ServedModel> model = {};
    ModelState state = ModelState::kUnavailable;
    std::string reason = "not loaded";
    bool is_wanted = true;  // until it is unloaded
  };
  // Makes an entry of a model that has come into one of the folders. Requires: the lock is held.
  void FindNew(const std::string& name);
  Entry& EntryOf(const std::string& name);
  const Entry& EntryOf(const std::string& name) const;

  Loader loader_;
  mutable std::mutex mutex_;
  std::mutex loading_;  // one at a time: a load takes all cores
  std::map<std::string, Entry> entries_;
  std::vector<std::string> folders_;
};

}  // namespace moka
