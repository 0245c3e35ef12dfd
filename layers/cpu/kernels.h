// Every CPU kernel. Each function gives one row; kernels.cpp lists them, the fastest of an op first.
#pragma once

#include <vector>

#include "graph/kernel.h"

namespace moka {

KernelDef BatchLanesConvolution();
KernelDef BatchLanesConvolutionBackwardData();
KernelDef BatchLanesConvolutionBackwardWeights();
KernelDef BatchLanesPoolMax();
KernelDef BatchLanesPoolMaxBackward();
KernelDef BatchLanesWinograd();
KernelDef BatchLanesWinogradBackwardWeights();
KernelDef MokaAccuracy();
KernelDef MokaAllReduceBegin();
KernelDef MokaAllReduceEnd();
KernelDef MokaMeanOverRanks();
KernelDef MokaArgmax();
KernelDef MokaBatchNorm();
KernelDef MokaBatchNormApply();
KernelDef MokaBatchNormBackward();
KernelDef MokaCast();
KernelDef MokaClassCounts();
KernelDef MokaConcat();
KernelDef MokaDetectionEvaluate();
KernelDef MokaDetectionOutput();
KernelDef MokaEmbed();
KernelDef MokaEmbedBackward();
KernelDef MokaEmbedUpdate();
KernelDef MokaExpand();
KernelDef MokaFilterIndex();
KernelDef MokaFlip();
KernelDef MokaFull();
KernelDef MokaGru();
KernelDef MokaGruBackward();
KernelDef MokaGruForward();
KernelDef MokaHardExampleMask();
KernelDef MokaLabelMask();
KernelDef MokaInterpolate();
KernelDef MokaInterpolateBackward();
KernelDef MokaLrn();
KernelDef MokaLrnBackward();
KernelDef MokaLstm();
KernelDef MokaLstmBackward();
KernelDef MokaLstmForward();
KernelDef MokaMatmul();
KernelDef MokaMultiboxMatch();
KernelDef MokaPointwise();
KernelDef MokaPoolAverage();
KernelDef MokaPoolAverageBackward();
KernelDef MokaPoolMax();
KernelDef MokaPoolMaxBackward();
KernelDef MokaPoolMaxMask();
KernelDef MokaPriorBox();
KernelDef MokaPoolStochastic();
KernelDef MokaReduceSum();
KernelDef MokaReindex();
KernelDef MokaReindexBackward();
KernelDef MokaRoiAlign();
KernelDef MokaRoiAlignBackward();
KernelDef MokaRoiPool();
KernelDef MokaRoiPoolBackward();
KernelDef MokaSlice();
KernelDef MokaSoftmaxLoss();
KernelDef MokaSoftmaxLossBackward();
KernelDef MokaSoftmaxLossForward();
KernelDef MokaTable();
KernelDef MokaTopKMask();
KernelDef MokaSoftmaxLosses();
KernelDef MokaSoftmaxLossesBackward();
KernelDef MokaTranspose();
KernelDef MokaUnpool();
KernelDef MokaUnpoolBackward();
KernelDef MokaUnpoolMax();
KernelDef MokaUnpoolMaxBackward();
KernelDef NarrowConvolutionBackwardData();
KernelDef OnednnConcat();
KernelDef OnednnConvolution();
KernelDef OnednnConvolutionBackwardData();
KernelDef OnednnConvolutionBackwardWeights();
KernelDef OnednnConvolutionInt8();
KernelDef OnednnDequantize();
KernelDef OnednnLrn();
KernelDef OnednnLrnBackward();
KernelDef OnednnMatmul();
KernelDef OnednnPoolAverage();
KernelDef OnednnPoolAverageBackward();
KernelDef OnednnPoolMax();
KernelDef OnednnPoolMaxForward();
KernelDef OnednnPoolMaxBackward();
KernelDef OnednnQuantize();
KernelDef OnednnReorder();
KernelDef OnednnSoftmax();
KernelDef OnednnSoftmaxBackward();
KernelDef OnednnWinograd();
KernelDef OnednnWinogradBackwardData();
KernelDef OnednnWinogradBackwardWeights();
KernelDef WinogradConvolution();
KernelDef WinogradConvolutionBackwardData();
KernelDef WinogradConvolutionBackwardWeights();

// All of the above.
std::vector<KernelDef> AllCpuKernels();

}  // namespace moka
