// The weights with which a sentence's words are summed; the op's reference and its kernels share them.
#pragma once

#include <cstdint>

#include "layers/device_function.h"

namespace moka {

// Of word j of J (from 1) in column k of d (from 1), l = (1 - j/J) - (k/d) * (1 - 2j/J), as a line over the columns:
// first + slope * k. Sukhbaatar et al., "End-to-end memory networks", 2015, arXiv 1503.08895, section 4.1.
template <class T>
struct PositionWeights {
  T first = 1;
  T slope = 0;
};

template <class T>
MOKA_HOST_DEVICE PositionWeights<T> PositionWeightsOf(int64_t word, int64_t words, int64_t columns) {
  const T part = static_cast<T>(word) / static_cast<T>(words);
  return {1 - part, -(1 - 2 * part) / static_cast<T>(columns)};
}

}  // namespace moka
