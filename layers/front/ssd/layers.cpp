#include "layers/front/ssd/layers.h"

namespace moka {

std::vector<LayerDef> SsdLayers() {
  return {AnnotatedDataLayer(), CenterGridOutputLayer(),  DetectionEvaluateLayer(), DetectionOutputLayer(),
          MultiBoxLossLayer(),  PriorBoxClusteredLayer(), PriorBoxLayer()};
}

}  // namespace moka
