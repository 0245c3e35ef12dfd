#include "layers/front/faces/layers.h"

namespace moka {

std::vector<LayerDef> FaceLayers() {
  return {CenterGridLossLayer(),    CenternetDetectionOutputLayer(), CosinL2NormalizeLayer(), FaceAttriEvaluateLayer(),
          FaceAttributeDataLayer(), FocalSoftmaxWithLossLayer(),     Identity2VerifyLayer(),  SampleTripletLayer(),
          SimpleNormalizeLayer()};
}

}  // namespace moka
