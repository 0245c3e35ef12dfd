// Words that other tools and older nets taught, and what says the same here.
#pragma once

#include <string>
#include <string_view>

namespace moka {

// Returns the field that a person means who sets a solver's field `name` as other tools call it: "epochs", "lr",
// "batch_size"; empty for a word that none is known to use.
std::string OtherToolsField(std::string_view name);

// Returns the name that a field of Caffe's older layers ("blobs_lr") has in a layer of today; empty for other words.
std::string OlderLayersField(std::string_view name);

}  // namespace moka
