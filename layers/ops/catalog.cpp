#include <algorithm>
#include <iterator>

#include "layers/ops/cascade/ops.h"
#include "layers/ops/detectnet/ops.h"
#include "layers/ops/faces/ops.h"
#include "layers/ops/int8/ops.h"
#include "layers/ops/loss/ops.h"
#include "layers/ops/ops.h"
#include "layers/ops/pose/ops.h"
#include "layers/ops/pyramid/ops.h"
#include "layers/ops/recurrent/ops.h"
#include "layers/ops/roi/ops.h"
#include "layers/ops/segmentation/ops.h"
#include "layers/ops/sequence/ops.h"
#include "layers/ops/shape/ops.h"
#include "layers/ops/ssd/ops.h"
#include "layers/ops/yolo/ops.h"

namespace moka {
namespace {

// Ops of boxes, labels, indices, losses and states that are carried along: a half type would round their coordinates
// and sums away.
std::vector<OpDef> InFloat32(std::vector<OpDef> ops) {
  for (OpDef& op : ops) op.precision = Precision::kKeep32;
  return ops;
}

}  // namespace

std::vector<OpDef> AllOps() {
  std::vector<OpDef> all = {
      AccuracyOp(),
      AllGatherBeginOp(),
      AllGatherEndOp(),
      AllReduceBeginOp(),
      AllReduceEndOp(),
      ArgmaxOp(),
      BatchNormApplyOp(),
      BatchNormBackwardOp(),
      BatchNormOp(),
      CastOp(),
      ConcatOp(),
      ConvolutionBackwardDataOp(),
      ConvolutionBackwardWeightsOp(),
      ConvolutionOp(),
      ConvolutionStatisticsOp(),
      ExchangeColumnsOp(),
      ExchangeRowsOp(),
      ExpandOp(),
      FullOp(),
      GatherRowsOp(),
      LrnBackwardOp(),
      LrnOp(),
      MatmulOp(),
      MeanOverRanksOp(),
      PointwiseGroupOp(),
      PointwiseOp(),
      PoolAverageBackwardOp(),
      PoolAverageOp(),
      PoolMaxBackwardOp(),
      PoolMaxForwardOp(),
      PoolMaxMaskOp(),
      PoolMaxOp(),
      PoolStochasticOp(),
      PositionsOp(),
      ReduceGroupOp(),
      ReduceSumOp(),
      ReorderOp(),
      ReshapeOp(),
      ScatterRowsOp(),
      SliceOp(),
      SoftmaxBackwardOp(),
      SoftmaxLossBackwardOp(),
      SoftmaxLossForwardOp(),
      SoftmaxLossOp(),
      SoftmaxOp(),
      SplitSoftmaxLossBackwardOp(),
      SplitSoftmaxLossOp(),
      StopGradientOp(),
      TopKMaskOp(),
      TransposeOp(),
  };
  for (std::vector<OpDef> (*group)() :
       {CascadeOps, DetectNetOps, FaceOps, Int8Ops, LossOps, PoseOps, PyramidOps, RecurrentOps, RoiOps, SegmentationOps,
        SequenceOps, ShapeOps, SsdOps, YoloOps}) {
    std::ranges::move(InFloat32(group()), std::back_inserter(all));
  }
  return all;
}

}  // namespace moka
