// Verbs and flags that other tools taught, and what does the same here: hints of usage errors.
#pragma once

#include <string>
#include <string_view>

namespace moka {

// "moka infer" for "predict"; empty for a word that no tool is known to use.
std::string OtherToolsVerb(std::string_view name);
// The same for a flag, without its dashes. `sets_solver`: the verb takes key=value of a solver, whose fields are flags
// elsewhere.
std::string OtherToolsFlag(std::string_view name, bool sets_solver);

}  // namespace moka
