// The layers of texts: the files of words that they read.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// A file of words that a data layer reads: what makes a trained net's numbers words again.
struct LayerVocabulary {
  std::string file;  // as the layer has it
  std::string copy;  // its name beside those of the layer's other files, in a run's config/
};
std::vector<LayerVocabulary> VocabulariesOf(const LayerParameter& layer);

}  // namespace moka
