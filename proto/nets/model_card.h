// The card by which a model's folder tells of itself (proto/zoo.proto).
#pragma once

#include <filesystem>
#include <string_view>

#include "proto/zoo.pb.h"

namespace moka {

inline constexpr std::string_view kModelCardFile = "model.prototxt";

// Errors: kNoInput, kBadData (no text), ErrorList of kConfig at file:line:column for what the schema does not have.
ModelCard ReadModelCard(const std::filesystem::path& file);
// Returns the card of a folder; a card without fields (task CLASSIFY) where it has none.
ModelCard ModelCardOf(const std::filesystem::path& folder);

}  // namespace moka
