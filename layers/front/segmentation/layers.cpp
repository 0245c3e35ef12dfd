#include "layers/front/segmentation/layers.h"

namespace moka {

std::vector<LayerDef> SegmentationLayers() {
  return {BnLayer(),
          BorderWeightLayer(),
          DenseImageDataLayer(),
          DiceLossLayer(),
          EltwiseAccuracyLayer(),
          ImageSegDataLayer(),
          InterpLayer(),
          MatWriteLayer(),
          MergeCropLayer(),
          PaddingLayer(),
          RandScoreLayer(),
          SegAccuracyLayer(),
          SegmentationEvaluateLayer(),
          UnpoolingLayer(),
          UpsampleDarknetLayer(),
          UpsampleLayer()};
}

}  // namespace moka
