#include "layers/front/loss/layers.h"

namespace moka {

std::vector<LayerDef> LossLayers() {
  return {BoxAnnotatorOhemLayer(),
          CenterLossLayer(),
          ChannelScaleLayer(),
          ContrastiveLossLayer(),
          GeneralContrastiveLossLayer(),
          GeneralTripletLossLayer(),
          GradientScalerLayer(),
          HashingLossLayer(),
          HingeLossLayer(),
          InfogainLossLayer(),
          InnerDistanceLayer(),
          L1LossLayer(),
          LabelSpecificAddLayer(),
          LabelSpecificRescaleLayer(),
          LargeMarginInnerProductLayer(),
          MarginInnerProductLayer(),
          MmdLossLayer(),
          MultiSigmoidCrossEntropyLossLayer(),
          MultinomialLogisticLossLayer(),
          SigmoidCrossEntropyBalanceLossLayer(),
          SmoothL1LossLayer(),
          SmoothL1LossOhemLayer(),
          SoftmaxWithLossOhemLayer(),
          TripletLossLayer()};
}

}  // namespace moka
