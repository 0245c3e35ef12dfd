// Lists in messages that may be long: the first few, and how many more there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace moka {

// "a, b, c and 4 more" of 7 texts of which at most 3 are shown.
inline std::string SomeOf(std::vector<std::string> texts, size_t most, std::string_view between = ", ") {
  const size_t rest = texts.size() > most ? texts.size() - most : 0;
  texts.resize(texts.size() - rest);
  return Join(texts, between) + (rest > 0 ? StrCat(" and ", rest, " more") : "");
}

}  // namespace moka
