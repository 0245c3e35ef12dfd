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

}  // namespace cuda
}  // namespace moka
