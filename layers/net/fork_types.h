// Layer types of the research forks, where a build leaves these out: known by name, so that a net which uses one is
// told what is missing instead of a name that looks alike.
#pragma once

#include <string_view>
#include <vector>

namespace moka {

// The layer types that this build leaves out, sorted: those that have a page among the forks'. Empty in a build with
// forks.
std::vector<std::string_view> LeftOutTypes();

bool IsLeftOut(std::string_view type);

// Whether this build leaves out the layers of research forks (MOKA_FORKS=OFF).
bool IsWithoutForks();

// The words that an error about a layer of a fork adds in such a build.
inline constexpr char kWithoutForks[] = "this build leaves out the layers of research forks (MOKA_FORKS=OFF)";

}  // namespace moka
