#include "layers/front/segmentation/layers.h"

namespace moka {

std::vector<LayerDef> SegmentationLayers() {
  return {BnLayer(),          DenseImageDataLayer(), EltwiseAccuracyLayer(), ImageSegDataLayer(),
          InterpLayer(),      MatWriteLayer(),       MergeCropLayer(),       PaddingLayer(),
          SegAccuracyLayer(), UnpoolingLayer(),      UpsampleDarknetLayer(), UpsampleLayer()};
}

}  // namespace moka
