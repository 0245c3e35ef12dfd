#include "layers/front/shape/layers.h"

namespace moka {

std::vector<LayerDef> ShapeLayers() {
  return {AutoCropLayer(), BatchReindexLayer(), CropLayer(), FilterLayer(),        FlipLayer(),
          Im2colLayer(),   PermuteLayer(),      SppLayer(),  ShuffleChannelLayer()};
}

}  // namespace moka
