// The rows of all prototxt layer types, one file each, alphabetical by type.
#pragma once

#include "layers/layer.h"

namespace moka {

LayerDef AbsValLayer();
LayerDef AccuracyLayer();
LayerDef ArgMaxLayer();
LayerDef AxpyLayer();
LayerDef BnllLayer();
LayerDef BatchNormLayer();
LayerDef BatchReductionLayer();
LayerDef BiasLayer();
LayerDef ClipLayer();
LayerDef ConcatLayer();
LayerDef ConvolutionLayer();
LayerDef Convolution3DLayer();
LayerDef ConvolutionDepthwiseLayer();
LayerDef DatabaseLayer();
LayerDef DeconvolutionLayer();
LayerDef DepthwiseConvolutionLayer();
LayerDef DropoutLayer();
LayerDef DummyDataLayer();
LayerDef EluLayer();
LayerDef EltwiseLayer();
LayerDef EuclideanLossLayer();
LayerDef ExpLayer();
LayerDef FlattenLayer();
LayerDef Hdf5DataLayer();
LayerDef ImageDataLayer();
LayerDef InnerProductLayer();
LayerDef InputLayer();
LayerDef LrnLayer();
LayerDef L2NormalizeLayer();
LayerDef LogLayer();
LayerDef MatMulLayer();
LayerDef MvnLayer();
LayerDef MemoryDataLayer();
LayerDef MultilabelImageDataLayer();
LayerDef NormalizeLayer();
LayerDef NdConvolutionLayer();
LayerDef NdPoolingLayer();
LayerDef PReluLayer();
LayerDef ParameterLayer();
LayerDef PoolingLayer();
LayerDef Pooling3DLayer();
LayerDef PowerLayer();
LayerDef ReLULayer();
LayerDef Relu6Layer();
LayerDef RecordDataLayer();
LayerDef ReductionLayer();
LayerDef ReshapeLayer();
LayerDef ScaleLayer();
LayerDef SigmoidLayer();
LayerDef SigmoidCrossEntropyLossLayer();
LayerDef SilenceLayer();
LayerDef SliceLayer();
LayerDef SoftmaxLayer();
LayerDef SoftmaxWithLossLayer();
LayerDef SpatialDropoutLayer();
LayerDef SplitLayer();
LayerDef SignedSqrtLayer();
LayerDef SumPoolingLayer();
LayerDef SwishLayer();
LayerDef TanHLayer();
LayerDef ThresholdLayer();
LayerDef TileLayer();
LayerDef VideoDataLayer();
LayerDef WindowDataLayer();

}  // namespace moka
