// Small steps over tensors [N,C,spatial..] that go with convolutions, plain or channels last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.h"

namespace moka {

class Stream;

namespace cuda {

// to = from + summand + bias of the channel, then a ReLU; from, summand and to lie as `type`. Null: none. to may be
// from or summand.
void AddEpilogue(Stream& stream, const TensorType& type, const void* from, const void* summand, const void* bias,
                 bool relu, void* to);

// to [columns,rows] = from [rows,columns], of elements of two bytes.
void TransposeHalves(Stream& stream, int64_t rows, int64_t columns, const void* from, void* to);

// to [C] = the sums over all but the channels. Requires: ChannelSumScratch() bytes.
int64_t ChannelSumScratch(const TensorType& type);
void SumChannels(Stream& stream, const TensorType& type, const void* from, void* to, std::byte* scratch);

// mean and variance [C] = the statistics of batch normalisation over all but the channels, in double where the tensor
// is and else in float. Requires: StatisticsScratch() bytes.
int64_t StatisticsScratch(const TensorType& type);
void TakeStatistics(Stream& stream, const TensorType& type, const void* from, void* mean, void* variance,
                    std::byte* scratch);
// The same of a tensor in float or a half type from the sums of its elements and of their squares [C]. mean may be
// sums, variance squares.
void StatisticsOfSums(Stream& stream, const TensorType& type, const float* sums, const float* squares, float* mean,
                      float* variance);

// The parts of the gradient g of a batch norm's result, all as the batch norm's input x lies: a convolution's gradient
// dx, what reaches the result another way, and the result, above 0 where a ReLU let pass. Null: none.
struct GradientTensors {
  const void* dx;
  const void* summand;
  const void* mask;
  const void* x;
};
// g = dx + summand where mask is above 0, else 0; sums and products [C] = the sums of g and of g * x over all but the
// channels, in double where the tensors are and else in float. g may be any of the first three. Requires:
// GradientSumsScratch() bytes.
int64_t GradientSumsScratch(const TensorType& type);
void TakeGradientSums(Stream& stream, const TensorType& type, const GradientTensors& from, void* g, void* sums,
                      void* products, std::byte* scratch);

}  // namespace cuda
}  // namespace moka
