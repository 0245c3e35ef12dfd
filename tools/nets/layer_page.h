// The reference page of a layer type in Markdown, made of its page, its LayerDef, the schema's comments and a run of
// its example.
#pragma once

#include <string>

#include "layers/net/layer.h"

namespace moka {

// Title, purpose, counts, formula, gradient, fields with types, defaults and meaning, example with the shapes it gives,
// source. Errors: those of building the example.
std::string LayerPageText(const LayerDef& layer);

// All layer types with the first sentence of each, as links to their pages.
std::string LayerIndexText();

}  // namespace moka
