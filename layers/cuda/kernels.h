// Every kernel for GPUs. Each function gives one row; kernels.cpp lists them, the fastest of an op first. A binary
// built without CUDA has none (no_kernels.cpp).
#pragma once

#include <vector>

#include "graph/kernel.h"

namespace moka {

KernelDef CudaAccuracy();
KernelDef CudaAllReduceBegin();
KernelDef CudaAllReduceEnd();
KernelDef CudaArgmax();
KernelDef CudaBatchNorm();
KernelDef CudaBatchNormApply();
KernelDef CudaBatchNormBackward();
KernelDef CudaCast();
KernelDef CudaConvolutionLoop();
KernelDef CudaConvolutionLoopBackwardData();
KernelDef CudaConvolutionLoopBackwardWeights();
KernelDef CudaConvolutionStatisticsLoop();
KernelDef CudaGru();
KernelDef CudaGruBackward();
KernelDef CudaGruForward();
KernelDef CudaLstm();
KernelDef CudaLstmBackward();
KernelDef CudaLstmForward();
KernelDef CudaMatmul();
KernelDef CudaClassCounts();
KernelDef CudaClipGradient();
KernelDef CudaCol2Im();
KernelDef CudaConcat();
KernelDef CudaCorrelation();
KernelDef CudaCorrelationBackward();
KernelDef CudaDequantize();
KernelDef CudaEmbed();
KernelDef CudaEmbedBackward();
KernelDef CudaExpand();
KernelDef CudaFilterIndex();
KernelDef CudaFlip();
KernelDef CudaFull();
KernelDef CudaHardExampleMask();
KernelDef CudaIm2Col();
KernelDef CudaInterpolate();
KernelDef CudaInterpolateBackward();
KernelDef CudaLabelMask();
KernelDef CudaLrn();
KernelDef CudaLrnBackward();
KernelDef CudaPoolAverage();
KernelDef CudaPoolAverageBackward();
KernelDef CudaPoolMax();
KernelDef CudaPoolMaxBackward();
KernelDef CudaPoolMaxForward();
KernelDef CudaPoolMaxMask();
KernelDef CudaPoolStochastic();
KernelDef CudaPositions();
KernelDef CudaPriorBox();
KernelDef CudaPsroiPool();
KernelDef CudaPsroiPoolBackward();
KernelDef CudaQuantize();
KernelDef CudaReindex();
KernelDef CudaReindexBackward();
KernelDef CudaReorder();
KernelDef CudaReverseTime();
KernelDef CudaRoiAlign();
KernelDef CudaRoiAlignBackward();
KernelDef CudaRoiPool();
KernelDef CudaRoiPoolBackward();
KernelDef CudaSequenceLength();
KernelDef CudaSlice();
KernelDef CudaSoftmax();
KernelDef CudaSoftmaxBackward();
KernelDef CudaSoftmaxLoss();
KernelDef CudaSoftmaxLossBackward();
KernelDef CudaSoftmaxLossForward();
KernelDef CudaSoftmaxLosses();
KernelDef CudaSoftmaxLossesBackward();
KernelDef CudaTable();
KernelDef CudaTakeRows();
KernelDef CudaTakeRowsBackward();
KernelDef CudaTopKMask();
KernelDef CudaTranspose();
KernelDef CudaUnpool();
KernelDef CudaUnpoolBackward();
KernelDef CudaUnpoolMax();
KernelDef CudaUnpoolMaxBackward();

KernelDef CudnnConvolution();
KernelDef CudnnConvolutionBackwardData();
KernelDef CudnnConvolutionBackwardWeights();
KernelDef CudnnConvolutionStatistics();
KernelDef InterpretedPointwise();
KernelDef InterpretedPointwiseGroup();
KernelDef InterpretedReduceGroup();
KernelDef InterpretedReduceSum();
KernelDef NvrtcPointwise();
KernelDef NvrtcPointwiseGroup();
KernelDef NvrtcReduceGroup();
KernelDef NvrtcReduceSum();

// All of the above.
std::vector<KernelDef> AllCudaKernels();

}  // namespace moka
