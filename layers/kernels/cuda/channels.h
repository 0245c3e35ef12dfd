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

}  // namespace cuda
}  // namespace moka
