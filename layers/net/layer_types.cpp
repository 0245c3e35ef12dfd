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
  const auto found = std::ranges::find_if(layers, [&](const LayerDef& def) { return def.type == type; });
  return found == layers.end() ? nullptr : &*found;
}

}  // namespace moka
