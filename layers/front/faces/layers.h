// Faces (yuqj1991/caffe_train): identities, attributes, detectors.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> FaceLayers();

LayerDef CenterGridLossLayer();
LayerDef CenternetDetectionOutputLayer();
LayerDef CosinL2NormalizeLayer();
LayerDef FaceAttriEvaluateLayer();
LayerDef FaceAttributeDataLayer();
LayerDef FocalSoftmaxWithLossLayer();
LayerDef Identity2VerifyLayer();
LayerDef SampleTripletLayer();
LayerDef SimpleNormalizeLayer();

}  // namespace moka
