// Traits that several ops' rows state (graph/op.h).
#pragma once

#include "graph/op.h"

namespace moka {

// OpDef::by_image of ops that compute each image alone, with weights or without.
inline ByImage EachImageAlone(const Attributes&, int) { return ByImage::kWithWeights; }

// OpDef::by_image of a concat or slice along attribute "axis": `otherwise` where that is not the images' axis.
inline ByImage UnlessAlongImages(const Attributes& attributes, int rank, ByImage otherwise) {
  const int64_t axis = attributes.Int("axis");
  return axis == 0 || axis == -rank ? ByImage::kNever : otherwise;
}

// OpDef::repeats of ops that keep every element, whatever their attributes.
inline bool AlwaysRepeats(const Attributes&) { return true; }

}  // namespace moka
