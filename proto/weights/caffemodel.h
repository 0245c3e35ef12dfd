// .caffemodel files. Reading asks of a layer only its name, type, bottoms, tops and blobs and passes over the rest, for
// the forks number their fields alike and mean different messages by them; those few are the same everywhere.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "proto/weights/weights.h"

namespace moka {

// Layers of all three generations (`layer`, V1 `layers`, V0 in V1). Errors: kBadData naming the byte or the blob.
Weights ReadCaffemodel(std::string_view bytes, const std::string& file);

}  // namespace moka
