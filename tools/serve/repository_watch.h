// New versions that are moved into a folder of models, seen by the system's own word (inotify). A folder that is copied
// to its place is half written for a while, one that is moved there is whole: only that counts.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace moka {

class RepositoryWatch {
 public:
  // A model, and the version of it that was moved in; 0 where the whole model was.
  struct Moved {
    std::string model;
    int64_t version = 0;
    bool operator==(const Moved&) const = default;
  };

  // `load` is called in a thread of the watch, one at a time; what it throws is warned of. Errors: kUnavailable where
  // the system watches no folders.
  RepositoryWatch(const std::vector<std::string>& folders, std::function<void(const Moved& moved)> load);
  RepositoryWatch(const RepositoryWatch&) = delete;
  RepositoryWatch& operator=(const RepositoryWatch&) = delete;
  // Waits for a load that runs.
  ~RepositoryWatch();

 private:
  // A folder of models, or one of them: then with its name.
  struct Watched {
    std::string folder;
    std::string model = {};
  };
  void Watch(const Watched& watched);
  void Run();
  // Returns what is to be loaded for what happened in a folder; without a model: nothing.
  Moved MovedIn(int watch, const std::string& name, bool was_moved);

  std::function<void(const Moved&)> load_;
  std::map<int, Watched> watched_;
  int events_ = -1;
  int ends_[2] = {-1, -1};  // of a pipe that wakes the thread
  std::thread thread_;
};

}  // namespace moka
