// Layer types of the research forks, where a build leaves these out: known by name, so that a net which uses one is
// told what is missing instead of a name that looks alike.
#pragma once

#include <string_view>
#include <vector>

namespace moka {

// The layer types that have a page among the forks', sorted, as the build found them; empty in a build with forks,
// which has them all.
std::vector<std::string_view> DocumentedTypes();

// Whether `type` has a page but no layer in this build.
bool IsForkType(std::string_view type);

// Whether this build leaves out the layers of research forks (MOKA_FORKS=OFF).
bool IsWithoutForks();

// The words that an error about a layer of a fork adds in such a build.
inline constexpr char kWithoutForks[] = "this build leaves out the layers of research forks (MOKA_FORKS=OFF)";

}  // namespace moka
