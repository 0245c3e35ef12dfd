// The names of joined layers are one text with a separator that no layer's name holds.
#include "graph/layer_names.h"

#include <algorithm>

#include "core/text.h"

namespace moka {

std::string JoinedLayers(std::string_view first, std::string_view second) {
  return StrCat(first, std::string(1, kBetweenLayers), second);
}

std::vector<std::string> LayersOf(std::string_view layer) { return Split(layer, kBetweenLayers); }

std::string LayersText(std::string_view layer) {
  std::string text(layer);
  std::ranges::replace(text, kBetweenLayers, '+');
  return text;
}

}  // namespace moka
