// What a file or a data set holds, in a few words that are equal where it is the same and, for all practical purposes,
// differ where it is not: how ranks find that one of them reads something else under the same name.
#pragma once

#include <filesystem>
#include <string>

namespace moka {

// A file: its bytes and a checksum, of all of it or, where it is large, of parts all over it. A list of files: also of
// some of the files that it names, which start at `root` or the current folder. A folder with a database: its records
// and their checksum. Any other folder: "a folder". Empty: there is nothing under that name, or nothing that can be
// read, which whoever reads it tells with its place.
std::string ContentOf(const std::filesystem::path& path, const std::string& root = {});

}  // namespace moka
