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

// A StoryData layer's shapes of its tops for stories of at most `words` words a sentence.
std::vector<Shape> StoryShapes(const LayerParameter& layer, int64_t batch_size, int64_t words);

// A file of words that a data layer reads: what makes a trained net's numbers words again.
struct LayerVocabulary {
  std::string file;  // as the layer has it
  std::string copy;  // its name beside those of the layer's other files, in a run's config/
};
std::vector<LayerVocabulary> VocabulariesOf(const LayerParameter& layer);

}  // namespace moka
