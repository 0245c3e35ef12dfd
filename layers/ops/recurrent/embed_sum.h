// The weights with which a sentence's words are summed; the op's reference and its kernels share them.
#pragma once

#include <cstdint>

#include "layers/ops/device_function.h"

namespace moka {

// The weight of word j of J (from 1) in column k of d (from 1), l = 1 + 4/(d J) * (k - (d+1)/2) * (j - (J+1)/2), as a
// line over the columns: first + slope * k. This is how the authors' code has the position encoding of Sukhbaatar et
// al., "End-to-end memory networks", 2015, arXiv 1503.08895, section 4.1, whose equation is half of it but for terms in
// 1/d and 1/J; its mean is 1, that of a bag of words.
template <class T>
struct PositionWeights {
  T first = 1;
  T slope = 0;
};

template <class T>
MOKA_HOST_DEVICE PositionWeights<T> PositionWeightsOf(int64_t word, int64_t words, int64_t columns) {
  const T slope = static_cast<T>(2 * (2 * word - words - 1)) / (static_cast<T>(columns) * static_cast<T>(words));
  return {1 - slope * static_cast<T>(columns + 1) / 2, slope};
}

}  // namespace moka
