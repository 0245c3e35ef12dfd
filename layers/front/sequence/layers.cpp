#include "layers/front/sequence/layers.h"

namespace moka {

std::vector<LayerDef> SequenceLayers() {
  return {CcpdDataLayer(),
          ContinuationIndicatorLayer(),
          ConvLstmLayer(),
          ConvLstmReluLayer(),
          CtcGreedyDecoderLayer(),
          CtcLossLayer(),
          DenseBlockLayer(),
          FlowWarpLayer(),
          GatherLayer(),
          LabelSequenceAccuracyLayer(),
          MultiStageMeanfieldLayer(),
          PoolingNdLayer(),
          ReverseLayer(),
          ReverseTimeLayer(),
          SpatialWtaLayer(),
          TransposeLayer(),
          VideoSegmentationDataLayer(),
          VideoWithVoxelTruthDataLayer(),
          VoxelSoftmaxLossLayer(),
          WarpCtcLayer(),
          WarpCtcLossLayer()};
}

}  // namespace moka
