// The words that a shell may put next on a command line of moka: verbs, flags, runs, models, fields of the solver and
// of the net's layers, and the values that a field takes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/command_line.h"

namespace moka {

// The candidates for the last word of `line`, which is what stands after "moka" up to the cursor; a line that ends with
// a blank asks for a new word. Each is the whole word, even where the one typed has a part of it. Those that something
// must follow end with "=", "." or "[". Never fails: what cannot be read has no candidates.
std::vector<std::string> CompletionsOf(const std::vector<Verb>& verbs, std::string_view line);

}  // namespace moka
