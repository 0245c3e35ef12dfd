// Words of a solver that other tools taught, and what says the same here.
#pragma once

#include <string>
#include <string_view>

namespace moka {

// What a person means who sets a solver's field `name` as other tools call it: "epochs", "lr", "batch_size"; empty for
// a word that none is known to use.
std::string OtherToolsField(std::string_view name);

}  // namespace moka
