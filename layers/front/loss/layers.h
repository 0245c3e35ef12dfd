// Losses of metric and ranking nets, and the classic ones of Caffe that few nets use. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef BoxAnnotatorOhemLayer();
LayerDef CenterLossLayer();
LayerDef ContrastiveLossLayer();
LayerDef HingeLossLayer();
LayerDef InfogainLossLayer();
LayerDef L1LossLayer();
LayerDef MarginInnerProductLayer();
LayerDef MultinomialLogisticLossLayer();
LayerDef SmoothL1LossLayer();
LayerDef SmoothL1LossOhemLayer();
LayerDef SoftmaxWithLossOhemLayer();
LayerDef TripletLossLayer();

std::vector<LayerDef> LossLayers();

}  // namespace moka
