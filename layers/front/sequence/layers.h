// Layers of sequences, video and random fields: CTC, convolutional LSTM, warping by flow, mean-field inference. One
// file a kind, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef CcpdDataLayer();
LayerDef ContinuationIndicatorLayer();
LayerDef ConvLstmLayer();
LayerDef ConvLstmReluLayer();
LayerDef CtcGreedyDecoderLayer();
LayerDef CtcLossLayer();
LayerDef DenseBlockLayer();
LayerDef FlowWarpLayer();
LayerDef GatherLayer();
LayerDef LabelSequenceAccuracyLayer();
LayerDef MultiStageMeanfieldAu3Layer();
LayerDef MultiStageMeanfieldLayer();
LayerDef PoolingNdLayer();
LayerDef ReverseLayer();
LayerDef ReverseTimeLayer();
LayerDef SpatialWtaLayer();
LayerDef TransposeLayer();
LayerDef VideoSegmentationDataLayer();
LayerDef VideoWithVoxelTruthDataLayer();
LayerDef VoxelSoftmaxLossLayer();
LayerDef WarpCtcLayer();
LayerDef WarpCtcLossLayer();

std::vector<LayerDef> SequenceLayers();

}  // namespace moka
