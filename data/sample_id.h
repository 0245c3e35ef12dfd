// The identity of a sample for which random choices are made, and its stream of random numbers.
#pragma once

#include <cstdint>

namespace moka {

struct SampleId {
  uint64_t epoch = 0;
  uint64_t record = 0;
};
constexpr uint64_t StreamOf(const SampleId& id) { return id.epoch << 40U | id.record; }

}  // namespace moka
