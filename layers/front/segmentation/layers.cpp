#include "layers/front/segmentation/layers.h"

namespace moka {

std::vector<LayerDef> SegmentationLayers() {
  return {BnLayer(),      DenseImageDataLayer(), EltwiseAccuracyLayer(), IcNetSubgraphLayer(), ImageSegDataLayer(),
          InterpLayer(),  MatWriteLayer(),       MergeCropLayer(),       PaddingLayer(),       SegAccuracyLayer(),
          SegDataLayer(), UnpoolingLayer(),      UpsampleDarknetLayer(), UpsampleLayer()};
}

}  // namespace moka
