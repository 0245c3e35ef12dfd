// Reads /proc/self/cgroup, whose lines are "ID:CONTROLLERS:PATH" (an empty list of controllers is version 2), and gives
// each group up to the root, as a limit anywhere above counts.
#include "core/threads/control_group.h"

#include <algorithm>
#include <fstream>

#include "core/text.h"

namespace moka {

namespace fs = std::filesystem;

std::vector<fs::path> ControlGroupFolders(const fs::path& root, const std::string& controller) {
  std::vector<fs::path> folders;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::vector<std::string> each = Split(names, ',');
    const bool is_ours = names.empty() || std::ranges::find(each, controller) != each.end();
    if (!is_ours) continue;
    const fs::path mounts = root / "sys/fs/cgroup";
    // Where both versions are mounted (systemd's hybrid), version 2 lies one folder deeper.
    for (const fs::path& mount :
         {names.empty() ? mounts : mounts / controller, names.empty() ? mounts / "unified" : mounts / names}) {
      for (fs::path path = fs::path(line.substr(second + 1)).relative_path();; path = path.parent_path()) {
        folders.push_back(path.empty() ? mount : mount / path);
        if (path.empty()) break;
      }
    }
  }
  return folders;
}

}  // namespace moka
