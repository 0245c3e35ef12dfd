// What this binary is.
#pragma once

#include <string>
#include <string_view>

namespace moka {

// "0.1.0".
std::string_view Version();

// Version, compiler and library versions, one a line.
std::string VersionText();

}  // namespace moka
