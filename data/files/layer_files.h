// The files that a data layer reads its samples from, as its fields name them.
#pragma once

#include <filesystem>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// Every text of the layer's fields that is a file's name, or a folder's with files in it (a database), under
// `base_folder`, and the files that a list names, under `base_folder` and the root_folder beside it. Each once, sorted.
std::vector<std::filesystem::path> FilesOfLayer(const LayerParameter& layer, const std::filesystem::path& base_folder);

}  // namespace moka
