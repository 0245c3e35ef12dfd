#include "layers/front/ssd/layers.h"

namespace moka {

std::vector<LayerDef> SsdLayers() {
  return {AnnotatedDataLayer(), DetectionEvaluateLayer(), DetectionOutputLayer(), MultiBoxLossLayer(), PriorBoxLayer()};
}

}  // namespace moka
