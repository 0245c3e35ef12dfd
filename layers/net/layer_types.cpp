// The list of layer types, from the rows that the build found, sorted by name for the "did you mean" search.
#include <algorithm>

#include "layers/net/layer.h"

namespace moka {

const std::vector<LayerDef>& AllLayers() {
  static const std::vector<LayerDef> layers = [] {
    std::vector<LayerDef> all = LayerRows();
    std::ranges::sort(all, {}, &LayerDef::type);
    return all;
  }();
  return layers;
}

const LayerDef* FindLayer(std::string_view type) {
  const std::vector<LayerDef>& layers = AllLayers();
  const auto type_of = [](const LayerDef& def) -> std::string_view { return def.type; };
  const auto found = std::ranges::lower_bound(layers, type, {}, type_of);
  return found == layers.end() || found->type != type ? nullptr : &*found;
}

const LayerTraits& TraitsOf(const LayerParameter& layer) {
  static const LayerTraits none;
  const LayerDef* def = FindLayer(layer.type());
  return def == nullptr ? none : def->traits;
}

}  // namespace moka
