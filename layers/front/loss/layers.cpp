#include "layers/front/loss/layers.h"

namespace moka {

std::vector<LayerDef> LossLayers() {
  return {BoxAnnotatorOhemLayer(), CenterLossLayer(),       ContrastiveLossLayer(),     HingeLossLayer(),
          InfogainLossLayer(),     L1LossLayer(),           MarginInnerProductLayer(),  MultinomialLogisticLossLayer(),
          SmoothL1LossLayer(),     SmoothL1LossOhemLayer(), SoftmaxWithLossOhemLayer(), TripletLossLayer()};
}

}  // namespace moka
