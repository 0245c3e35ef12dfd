#include "layers/front/translated/layers.h"

namespace moka {

std::vector<LayerDef> TranslatedLayers() {
  return {AddLayer(),
          BatchToSpaceNDLayer(),
          DepthToSpaceLayer(),
          HardSwishLayer(),
          MulLayer(),
          PadLayer(),
          ResizeBilinearLayer(),
          ResizeNearestNeighborLayer(),
          SeluDropoutLayer(),
          SeluLayer(),
          SpaceToBatchNDLayer(),
          SqueezeLayer()};
}

}  // namespace moka
