#include "layers/front/ssd/layers.h"

namespace moka {

std::vector<LayerDef> SsdLayers() {
  return {AnnotatedDataLayer(),   CenterGridOutputLayer(),   CocoEvaluateLayer(),      DetectionEvaluateLayer(),
          DetectionOutputLayer(), MultiBoxCenterLossLayer(), MultiBoxFocalLossLayer(), MultiBoxLossLayer(),
          MultiBoxSsdLossLayer(), PriorBoxClusteredLayer(),  PriorBoxLayer()};
}

}  // namespace moka
