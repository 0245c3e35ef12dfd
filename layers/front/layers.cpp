#include "layers/front/layers.h"

#include <algorithm>
#include <iterator>

#include "layers/front/loss/layers.h"
#include "layers/front/recurrent/layers.h"
#include "layers/front/roi/layers.h"
#include "layers/front/segmentation/layers.h"
#include "layers/front/shape/layers.h"
#include "layers/front/ssd/layers.h"
#include "layers/front/yolo/layers.h"

namespace moka {

namespace {

std::vector<LayerDef> CommonLayers() {
  return {
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
      TileLayer(),          Hdf5DataLayer(),
      VideoDataLayer(),     WindowDataLayer(),
      TileLayer(),          AxpyLayer(),
      MvnLayer(),           NormalizeLayer(),
      Relu6Layer(),         SpatialDropoutLayer(),
      TileLayer(),          BatchReductionLayer(),
      TileLayer(),          Convolution3DLayer(),
      NdConvolutionLayer(), ConvolutionDepthwiseLayer(),
      NdPoolingLayer(),     DepthwiseConvolutionLayer(),
      Pooling3DLayer(),
  };
}

}  // namespace

const std::vector<LayerDef>& AllLayers() {
  static const std::vector<LayerDef> layers = [] {
    std::vector<LayerDef> all = CommonLayers();
    for (std::vector<LayerDef> (*group)() :
         {LossLayers, RecurrentLayers, RoiLayers, SegmentationLayers, ShapeLayers, SsdLayers, YoloLayers}) {
      std::ranges::move(group(), std::back_inserter(all));
    }
    std::ranges::sort(all, {}, &LayerDef::type);
    return all;
  }();
  return layers;
}

const LayerDef* FindLayer(std::string_view type) {
  const std::vector<LayerDef>& layers = AllLayers();
  const auto found = std::ranges::find_if(layers, [&](const LayerDef& def) { return def.type == type; });
  return found == layers.end() ? nullptr : &*found;
}

}  // namespace moka
