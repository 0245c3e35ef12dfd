// Network file systems tell nothing of what other machines do there; docs/serving.md says so.
#include "tools/serve/repository_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "tools/serve/repository.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

}  // namespace

RepositoryWatch::RepositoryWatch(const std::vector<std::string>& folders, std::function<void(const Moved& moved)> load)
    : load_(std::move(load)), events_(inotify_init1(IN_CLOEXEC)) {
  if (events_ < 0 || pipe2(ends_, O_CLOEXEC) != 0)
    throw Error(ErrorKind::kUnavailable, "the system watches no folders");
  for (const std::string& folder : folders) {
    Watch({folder});
    for (const fs::path& entry : SortedEntries(folder)) {
      std::error_code failed;
      if (fs::is_directory(entry, failed)) Watch({entry.string(), ServedName(entry.filename().string())});
    }
  }
  thread_ = std::thread([this] { Run(); });
}

RepositoryWatch::~RepositoryWatch() {
  [[maybe_unused]] const auto written = write(ends_[1], "", 1);
  thread_.join();
  for (const int end : {events_, ends_[0], ends_[1]}) close(end);
}

void RepositoryWatch::Watch(const Watched& watched) {
  const int watch = inotify_add_watch(events_, watched.folder.c_str(), IN_MOVED_TO | IN_CREATE | IN_ONLYDIR);
  if (watch < 0) throw Error(ErrorKind::kUnavailable, StrCat(Printable(watched.folder), " cannot be watched"));
  watched_[watch] = watched;
}

RepositoryWatch::Moved RepositoryWatch::MovedIn(int watch, const std::string& name, bool was_moved) {
  const auto found = watched_.find(watch);
  if (found == watched_.end()) return {};
  const Watched watched = found->second;
  const std::string path = StrCat(watched.folder, "/", name);
  if (watched.model.empty()) {
    if (name.starts_with('.')) return {};
    Watch({path, ServedName(name)});  // versions come into it later
    return was_moved ? Moved{ServedName(name)} : Moved{};
  }
  const int64_t version = VersionNamed(name);
  if (version == 0) {
    if (was_moved && !name.starts_with('.'))
      LogWarning(StrCat(Printable(path), " is called by no number from 1 on, as versions are: it is not loaded"));
    return {};
  }
  if (was_moved) return {watched.model, version};
  LogWarning(StrCat(Printable(path),
                    " was made where it is and may be half written: it is not loaded; move (mv) a whole",
                    " folder there"));
  return {};
}

void RepositoryWatch::Run() {
  for (;;) {
    pollfd waits[] = {{.fd = events_, .events = POLLIN, .revents = 0},
                      {.fd = ends_[0], .events = POLLIN, .revents = 0}};
    if (poll(waits, 2, -1) < 0) continue;  // by a signal
    if (waits[1].revents != 0) return;
    alignas(inotify_event) char bytes[16384];
    const ssize_t read_bytes = read(events_, bytes, sizeof(bytes));
    std::vector<Moved> all;
    for (ssize_t at = 0; at < read_bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(bytes + at);  // NOLINT(*-reinterpret-cast)
      at += static_cast<ssize_t>(sizeof(inotify_event)) + event->len;
      if ((event->mask & IN_Q_OVERFLOW) != 0)
        LogWarning("so much came into the folders at once that some of it was not seen: a load by its name finds it");
      if (event->len == 0 || (event->mask & IN_ISDIR) == 0) continue;
      try {
        Moved moved = MovedIn(event->wd, event->name, (event->mask & IN_MOVED_TO) != 0);
        if (!moved.model.empty() && std::ranges::find(all, moved) == all.end()) all.push_back(std::move(moved));
      } catch (const Error& error) {  // the folder is gone again
        LogWarning(error.what());
      }
    }
    for (const Moved& moved : all) {
      try {
        load_(moved);
      } catch (const std::exception& error) {
        LogWarning(StrCat("model ", Printable(moved.model), " was not loaded: ", error.what()));
      }
    }
  }
}

}  // namespace moka
