// The layers of texts: shapes of their tops from their fields alone.
#pragma once

#include <string>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// Shapes of a TextPairData, StoryData or SkipGramData layer's tops; none for other layers and where a field is missing.
// `assumed` says what no field tells.
std::vector<Shape> GuessTexts(const LayerParameter& layer, std::string& assumed);

}  // namespace moka
