// Losses of metric and ranking nets, and the classic ones of Caffe that few nets use. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef BoxAnnotatorOhemLayer();
LayerDef CenterLossLayer();
LayerDef ChannelScaleLayer();
LayerDef ContrastiveLossLayer();
LayerDef GeneralContrastiveLossLayer();
LayerDef GeneralTripletLossLayer();
LayerDef GradientScalerLayer();
LayerDef HashingLossLayer();
LayerDef HingeLossLayer();
LayerDef InfogainLossLayer();
LayerDef InnerDistanceLayer();
LayerDef L1LossLayer();
LayerDef LabelSpecificAddLayer();
LayerDef LabelSpecificRescaleLayer();
LayerDef LargeMarginInnerProductLayer();
LayerDef MarginInnerProductLayer();
LayerDef MmdLossLayer();
LayerDef MultiSigmoidCrossEntropyLossLayer();
LayerDef MultinomialLogisticLossLayer();
LayerDef SigmoidCrossEntropyBalanceLossLayer();
LayerDef SmoothL1LossLayer();
LayerDef SmoothL1LossOhemLayer();
LayerDef SoftmaxWithLossOhemLayer();
LayerDef TripletLossLayer();

std::vector<LayerDef> LossLayers();

}  // namespace moka
