#include "layers/front/layers.h"

#include <algorithm>
#include <iterator>

#include "layers/front/attention/layers.h"
#include "layers/front/batch_norm.h"
#include "layers/front/cascade/layers.h"
#include "layers/front/detectnet/layers.h"
#include "layers/front/faces/layers.h"
#include "layers/front/files/layers.h"
#include "layers/front/gan/layers.h"
#include "layers/front/loss/layers.h"
#include "layers/front/pose/layers.h"
#include "layers/front/pyramid/layers.h"
#include "layers/front/recurrent/layers.h"
#include "layers/front/roi/layers.h"
#include "layers/front/segmentation/layers.h"
#include "layers/front/sequence/layers.h"
#include "layers/front/shape/layers.h"
#include "layers/front/small/layers.h"
#include "layers/front/sparsity/layers.h"
#include "layers/front/ssd/layers.h"
#include "layers/front/translated/layers.h"
#include "layers/front/vendor/layers.h"
#include "layers/front/yolo/layers.h"

namespace moka {

namespace {

std::vector<LayerDef> CommonLayers() {
  return {
      AbsValLayer(),
      AccuracyLayer(),
      ArgMaxLayer(),
      AxpyLayer(),
      BatchNormLayer(),
      BatchNormScaleLayer(),
      BatchReductionLayer(),
      BiasLayer(),
      BnllLayer(),
      ClipLayer(),
      ConcatLayer(),
      Convolution3DLayer(),
      ConvolutionDepthwiseLayer(),
      ConvolutionLayer(),
      DatabaseLayer(),
      DeconvolutionLayer(),
      DepthwiseConvolutionLayer(),
      DropoutLayer(),
      DummyDataLayer(),
      EltwiseLayer(),
      EluLayer(),
      EuclideanLossLayer(),
      ExpLayer(),
      FlattenLayer(),
      Hdf5DataLayer(),
      ImageDataLayer(),
      InnerProductLayer(),
      InputLayer(),
      L2NormalizeLayer(),
      LogLayer(),
      LrnLayer(),
      MatMulLayer(),
      MemoryDataLayer(),
      MultilabelImageDataLayer(),
      MvnLayer(),
      NdConvolutionLayer(),
      NdPoolingLayer(),
      NormalizeLayer(),
      PReluLayer(),
      ParameterLayer(),
      Pooling3DLayer(),
      PoolingLayer(),
      PowerLayer(),
      ReLULayer(),
      RecordDataLayer(),
      ReductionLayer(),
      Relu6Layer(),
      ReshapeLayer(),
      ScaleLayer(),
      SigmoidCrossEntropyLossLayer(),
      SigmoidLayer(),
      SignedSqrtLayer(),
      SilenceLayer(),
      SliceLayer(),
      SoftmaxLayer(),
      SoftmaxWithLossLayer(),
      SpatialDropoutLayer(),
      SplitLayer(),
      SumPoolingLayer(),
      SwishLayer(),
      TanHLayer(),
      ThresholdLayer(),
      TileLayer(),
      VideoDataLayer(),
      WindowDataLayer(),
  };
}

}  // namespace

const std::vector<LayerDef>& AllLayers() {
  static const std::vector<LayerDef> layers = [] {
    std::vector<LayerDef> all = CommonLayers();
    for (std::vector<LayerDef> (*group)() :
         {AttentionLayers, CascadeLayers,      DetectNetLayers,  FaceLayers,    FileLayers,
          GanLayers,       LossLayers,         PoseLayers,       PyramidLayers, RecurrentLayers,
          RoiLayers,       SegmentationLayers, SequenceLayers,   ShapeLayers,   SmallLayers,
          SparsityLayers,  SsdLayers,          TranslatedLayers, VendorLayers,  YoloLayers}) {
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
