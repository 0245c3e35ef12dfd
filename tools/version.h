// What this binary is.
#pragma once

#include <string>
#include <string_view>

namespace moka {

inline constexpr std::string_view kVersion = MOKA_VERSION;

// Version, compiler and library versions, one a line.
std::string VersionText();

}  // namespace moka
