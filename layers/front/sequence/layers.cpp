#include "layers/front/sequence/layers.h"

#include "layers/front/sequence/ccpd_output.h"

namespace moka {

std::vector<LayerDef> SequenceLayers() {
  return {
          CcpdDataLayer(),
          ContinuationIndicatorLayer(),
          ConvLstmLayer(),
          ConvLstmReluLayer(),
          CtcGreedyDecoderLayer(),
          CtcLossLayer(),
          DenseBlockLayer(),
          DetectionCcpdOutputLayer(),
          FlowWarpLayer(),
          GatherLayer(),
          LabelSequenceAccuracyLayer(),
          LpEvaluateLayer(),
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
