// Files that programs keep on disk to be quicker the next time, those of the user's cache folder. Everything in it can
// be made again, so damage and folders that cannot be written are no errors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace moka {

// $XDG_CACHE_HOME/moka, otherwise ~/.cache/moka; empty without a home. Variables that hold no absolute path count as
// not set.
std::filesystem::path CacheFolder();

// The bytes that Keep wrote to a file; none if there are none or they are damaged.
std::optional<std::string> ReadKept(const std::filesystem::path& file);
// Writes the bytes under their checksum, whole or not at all; makes the folder. An empty path: nothing.
void Keep(const std::filesystem::path& file, std::string_view bytes);

}  // namespace moka
