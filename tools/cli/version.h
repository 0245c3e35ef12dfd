// The version and the parts of this binary.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moka {

// "0.1.0".
std::string_view Version();

// Returns the parts that this binary is made of, and the version of each.
std::vector<std::pair<std::string, std::string>> VersionParts();

// A checksum of this program's file in 16 hexadecimal digits, equal where the same build is installed. Reads the whole
// file. Errors: those of ReadFile.
std::string BuildChecksum();

// Version, compiler and library versions, one a line.
std::string VersionText();

// The same as one line of JSON, with "build": BuildChecksum(). Errors: its.
std::string VersionJson();

}  // namespace moka
