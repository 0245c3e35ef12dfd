#include "layers/front/layers.h"

#include <algorithm>

namespace moka {

const std::vector<LayerDef>& AllLayers() {
  static const std::vector<LayerDef> layers = {
      AbsValLayer(),        AccuracyLayer(),
      ArgMaxLayer(),        BnllLayer(),
      BatchNormLayer(),     BiasLayer(),
      ClipLayer(),          ConcatLayer(),
      ConvolutionLayer(),   DatabaseLayer(),
      DeconvolutionLayer(), DropoutLayer(),
      DummyDataLayer(),     EluLayer(),
      EltwiseLayer(),       EuclideanLossLayer(),
      ExpLayer(),           FlattenLayer(),
      ImageDataLayer(),     InnerProductLayer(),
      InputLayer(),         LrnLayer(),
      LogLayer(),           MemoryDataLayer(),
      PReluLayer(),         ParameterLayer(),
      PoolingLayer(),       PowerLayer(),
      ReLULayer(),          ReductionLayer(),
      ReshapeLayer(),       ScaleLayer(),
      SigmoidLayer(),       SigmoidCrossEntropyLossLayer(),
      SilenceLayer(),       SliceLayer(),
      SoftmaxLayer(),       SoftmaxWithLossLayer(),
      SplitLayer(),         SwishLayer(),
      TanHLayer(),          ThresholdLayer(),
      TileLayer(),
  };
  return layers;
}

const LayerDef* FindLayer(std::string_view type) {
  const std::vector<LayerDef>& layers = AllLayers();
  const auto found = std::ranges::find_if(layers, [&](const LayerDef& def) { return def.type == type; });
  return found == layers.end() ? nullptr : &*found;
}

}  // namespace moka
