// A folder that ranks of several processes share.
#pragma once

#include <filesystem>

#include "comm/transport/communicator.h"

namespace moka {

// Makes sure that all ranks reach the folder in which the first rank writes, made if need be, before it writes there:
// each looks for a file that the first has put there for the time of the search, under the first rank's absolute name
// and under its own working folder. Returns the folder as this rank reaches it. `folder` is the first rank's. Errors:
// kCantCreate on a rank that finds it nowhere, naming rank and folders.
std::filesystem::path RequireSharedFolder(Communicator& world, const std::filesystem::path& folder);

}  // namespace moka
