// The list of layer types, from the rows that the build found, sorted by name for the "did you mean" search.
#include <algorithm>
#include <string>

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

// Nets with layers of other Caffes are deployed and drawn too. By the habit that they all follow, types with "Loss" or
// "Data" in their names are what the names say, so that such a loss still has scores and needs labels.
const LayerTraits& TraitsOf(const LayerParameter& layer) {
  static const LayerTraits none;
  static const LayerTraits loss{.is_loss = true};
  static const LayerTraits data{.drawn_as = DrawnAs::kData};
  if (const LayerDef* def = FindLayer(layer.type()); def != nullptr) return def->traits;
  if (layer.type().find("Loss") != std::string::npos) return loss;
  return layer.type().find("Data") != std::string::npos ? data : none;
}

}  // namespace moka
