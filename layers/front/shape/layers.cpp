#include "layers/front/shape/layers.h"

namespace moka {

std::vector<LayerDef> ShapeLayers() {
  return {BatchReindexLayer(), CropLayer(),    FilterLayer(), FlipLayer(),
          Im2colLayer(),       PermuteLayer(), SppLayer(),    ShuffleChannelLayer()};
}

}  // namespace moka
