#include "layers/front/sequence/layers.h"

#include "layers/front/sequence/ccpd_output.h"
#include "layers/front/sequence/flow_net.h"

namespace moka {

std::vector<LayerDef> SequenceLayers() {
  return {AccumLayer(),
          CcpdDataLayer(),
          ChannelNormLayer(),
          ContinuationIndicatorLayer(),
          ConvLstmLayer(),
          ConvLstmReluLayer(),
          Correlation1DLayer(),
          CorrelationLayer(),
          CtcGreedyDecoderLayer(),
          CtcLossLayer(),
          DenseBlockLayer(),
          DetectionCcpdOutputLayer(),
          DownsampleLayer(),
          FlowWarpLayer(),
          GatherLayer(),
          LabelSequenceAccuracyLayer(),
          LpEvaluateLayer(),
          MeanLayer(),
          MultiStageMeanfieldAu3Layer(),
          MultiStageMeanfieldLayer(),
          PoolingNdLayer(),
          ResampleLayer(),
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
