// The safetensors format: u64 header length, JSON header, values. Used by weights.cpp.
// Every rule of the format is checked, since each omission has been somebody's published bug: header at most 100 MB and
// within the file, "{" first, known dtypes, begin <= end <= size, span = product(shape) * size, no holes, no overlaps,
// no duplicate names.
#pragma once

#include <string>
#include <string_view>

#include "proto/weights/weights.h"

namespace moka {

// Errors: kBadData naming the tensor.
Weights ReadSafetensors(std::string_view bytes, const std::string& file);

}  // namespace moka
