// Every op, one file each in this folder: its meaning, types, gradient and test cases. The list is explicit and
// alphabetical; catalog.cpp gathers it.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef AccuracyOp();
OpDef AllGatherBeginOp();
OpDef AllGatherEndOp();
OpDef AllReduceBeginOp();
OpDef AllReduceEndOp();
OpDef ArgmaxOp();
OpDef BatchNormApplyOp();
OpDef BatchNormBackwardOp();
OpDef BatchNormOp();
OpDef CastOp();
OpDef ConcatOp();
OpDef ConvolutionBackwardDataOp();
OpDef ConvolutionBackwardWeightsOp();
OpDef ConvolutionOp();
OpDef ConvolutionStatisticsOp();
OpDef ExchangeColumnsOp();
OpDef ExchangeRowsOp();
OpDef ExpandOp();
OpDef FullOp();
OpDef GatherRowsOp();
OpDef LrnBackwardOp();
OpDef LrnOp();
OpDef MatmulOp();
OpDef MeanOverRanksOp();
OpDef PointwiseGroupOp();
OpDef PointwiseOp();
OpDef PoolAverageBackwardOp();
OpDef PoolAverageOp();
OpDef PoolMaxBackwardOp();
OpDef PoolMaxForwardOp();
OpDef PoolMaxMaskOp();
OpDef PoolMaxOp();
OpDef PoolStochasticOp();
OpDef PositionsOp();
OpDef ReduceGroupOp();
OpDef ReduceSumOp();
OpDef ReorderOp();
OpDef ReshapeOp();
OpDef ScatterRowsOp();
OpDef SliceOp();
OpDef SoftmaxBackwardOp();
OpDef SoftmaxLossBackwardOp();
OpDef SoftmaxLossForwardOp();
OpDef SoftmaxLossOp();
OpDef SoftmaxOp();
OpDef SplitSoftmaxLossBackwardOp();
OpDef SplitSoftmaxLossOp();
OpDef StopGradientOp();
OpDef TopKMaskOp();
OpDef TransposeOp();

// All of the above.
std::vector<OpDef> AllOps();

}  // namespace moka
