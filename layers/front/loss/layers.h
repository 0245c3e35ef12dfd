// Losses of metric and ranking nets, and the classic ones of Caffe that few nets use. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef BoxAnnotatorOhemLayer();
LayerDef CenterLossLayer();
LayerDef ChannelScaleLayer();
LayerDef ContrastiveLossLayer();
LayerDef CosineSimilarityLossLayer();
LayerDef EuclideanLoss6Layer();
LayerDef GeneralContrastiveLossLayer();
LayerDef GeneralTripletLossLayer();
LayerDef GradientScalerLayer();
LayerDef HashingLossLayer();
LayerDef HingeLossLayer();
LayerDef InfogainLossLayer();
LayerDef InnerDistanceLayer();
LayerDef InterClassLayer();
LayerDef K1EuclideanLossLayer();
LayerDef K2EuclideanLossLayer();
LayerDef KlDivLossLayer();
LayerDef L1LossLayer();
LayerDef LabelSpecificAddLayer();
LayerDef LabelSpecificRescaleLayer();
LayerDef LargeMarginInnerProductLayer();
LayerDef ManhattanLossLayer();
LayerDef MarginInnerProductLayer();
LayerDef MineContrastiveLossLayer();
LayerDef MmdLossLayer();
LayerDef MultiSigmoidCrossEntropyLossLayer();
LayerDef MultinomialLogisticLossLayer();
LayerDef NssLossLayer();
LayerDef SharedCenterLossLayer();
LayerDef SigmoidCrossEntropyBalanceLossLayer();
LayerDef SmoothL1LossLayer();
LayerDef SmoothL1LossOhemLayer();
LayerDef SoftmaxWithLossOhemLayer();
LayerDef TripletLossLayer();
LayerDef WeightedSoftmaxWithLossLayer();

std::vector<LayerDef> LossLayers();

}  // namespace moka
