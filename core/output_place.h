// Where files go whose names stand in a net. Nets come from others, with their weights: what they name lies below a
// folder of the caller's, and a name that leads out of it is refused unless whoever started the program allows it.
#pragma once

#include <filesystem>
#include <string>

namespace moka {

// From here on names are kept below their folders, or below `also` where it is not empty. A library's caller who does
// not call this says itself where its nets write. Not for several threads. Errors: kUsage where `also` is no folder.
void ConfineOutputs(const std::filesystem::path& also);

// The file that a name means in the folder ("" is the working folder). Errors: kConfig for a name that is empty, that
// is absolute or has "..", or that links lead elsewhere with, unless ConfineOutputs allows or was never called.
std::filesystem::path OutputPath(const std::filesystem::path& folder, const std::string& name);

}  // namespace moka
