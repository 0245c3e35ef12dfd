// Where the control groups of this process lie in the file system (cgroups(7)), for the limits that they set.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moka {

// The folders of this process's control group and all above it, for one controller: version 1 has a tree for each
// (named cpuset, memory, cpu or cpu,cpuacct), version 2 one for all. A container that sees only its own part of the
// tree has it at the mount's root, whatever path it is told. Not all of them need exist. `root` is "/" but in tests.
std::vector<std::filesystem::path> ControlGroupFolders(const std::filesystem::path& root,
                                                       const std::string& controller);

}  // namespace moka
