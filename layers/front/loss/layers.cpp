#include "layers/front/loss/layers.h"

namespace moka {

std::vector<LayerDef> LossLayers() {
  return {BoxAnnotatorOhemLayer(),
          CenterLossLayer(),
          ChannelScaleLayer(),
          ContrastiveLossLayer(),
          CosineSimilarityLossLayer(),
          EuclideanLoss6Layer(),
          GeneralContrastiveLossLayer(),
          GeneralTripletLossLayer(),
          GradientScalerLayer(),
          HashingLossLayer(),
          HingeLossLayer(),
          InfogainLossLayer(),
          InnerDistanceLayer(),
          InterClassLayer(),
          K1EuclideanLossLayer(),
          K2EuclideanLossLayer(),
          KlDivLossLayer(),
          L1LossLayer(),
          LabelSpecificAddLayer(),
          LabelSpecificRescaleLayer(),
          LargeMarginInnerProductLayer(),
          ManhattanLossLayer(),
          MarginInnerProductLayer(),
          MineContrastiveLossLayer(),
          MmdLossLayer(),
          MultiSigmoidCrossEntropyLossLayer(),
          MultinomialLogisticLossLayer(),
          NssLossLayer(),
          SharedCenterLossLayer(),
          SigmoidCrossEntropyBalanceLossLayer(),
          SmoothL1LossLayer(),
          SmoothL1LossOhemLayer(),
          SoftmaxWithLossOhemLayer(),
          TripletLossLayer(),
          WeightedSoftmaxWithLossLayer()};
}

}  // namespace moka
