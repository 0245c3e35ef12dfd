// Nets for tools that do not train: shapes of data layers, and what a CONFIG argument names.
#pragma once

#include <filesystem>
#include <string>

#include "layers/net.h"
#include "proto/moka.pb.h"

namespace moka {

// Asks a data layer's source for its shapes. When the source is missing the shape follows from the layer's crop (three
// channels) with a warning, so a net can be looked at and timed without its data; without a crop the source's error
// stays.
DataTypes ProbeDataTypes(Phase phase, const std::filesystem::path& base_folder);

// The net a CONFIG argument means: a .prototxt, or a folder (model or run) that holds `file` (run folders in config/).
// Errors: kNoInput naming the places tried.
std::filesystem::path FindConfig(const std::string& config, std::string_view file);

}  // namespace moka
