// What this binary is.
#pragma once

#include <string>
#include <string_view>

namespace moka {

// "0.1.0".
std::string_view Version();

// "0.1.0, build 1a2b...": the hash of this program's file, as in VersionJson. Errors: those of ReadFile.
std::string BuildText();

// Version, compiler and library versions, one a line.
std::string VersionText();

// The same as one line of JSON, with "build": a hash of this program's file, which is equal where the same build is
// installed. Reads the whole file. Errors: those of ReadFile.
std::string VersionJson();

}  // namespace moka
